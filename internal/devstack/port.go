package devstack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

const loopback = "127.0.0.1"

// port is a TCP port on the loopback interface set aside for one of our servers.
//
// The UDP port of the same number is held for as long as the port is ours, also
// while its server is down: it keeps other stacks away, in this process and in
// others, and the kernel frees it when we die.
type port struct {
	number      int
	reservation net.PacketConn
}

// reservePort sets aside the port with this number, or a free one when it is 0.
func reservePort(number int) (*port, error) {
	if number != 0 {
		if err := checkPort(number); err != nil {
			return nil, fmt.Errorf("port %d is not free: %w", number, err)
		}
		// The caller insists on this number, so that a stranger's UDP socket is no
		// reason to refuse it.
		reservation, _ := net.ListenPacket("udp4", hostPort(number))
		return &port{number: number, reservation: reservation}, nil
	}
	low, high := portRange()
	var last error
	for range 200 {
		number := low + rand.IntN(high-low)
		reservation, err := net.ListenPacket("udp4", hostPort(number))
		if err != nil {
			last = err
			continue
		}
		if err := checkPort(number); err != nil {
			reservation.Close()
			last = err
			continue
		}
		return &port{number: number, reservation: reservation}, nil
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", low, high, last)
}

func (p *port) address() string { return hostPort(p.number) }

// release gives the port back. Safe to call twice, and on nil.
func (p *port) release() {
	if p == nil || p.reservation == nil {
		return
	}
	p.reservation.Close()
	p.reservation = nil
}

func hostPort(number int) string { return net.JoinHostPort(loopback, strconv.Itoa(number)) }

func checkPort(number int) error {
	l, err := net.Listen("tcp4", hostPort(number))
	if err != nil {
		return err
	}
	return l.Close()
}

// portRange returns ports outside the range that the kernel hands out to
// outgoing connections. A port from inside it can be taken by any client while
// its server is down, even by one that tries to reconnect to that very server.
func portRange() (low, high int) {
	const lowDefault, highDefault, countMin = 20_000, 32_768, 2_000
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return lowDefault, highDefault
	}
	fields := strings.Fields(string(raw))
	if len(fields) != 2 {
		return lowDefault, highDefault
	}
	first, errFirst := strconv.Atoi(fields[0])
	last, errLast := strconv.Atoi(fields[1])
	switch {
	case errFirst != nil || errLast != nil:
		return lowDefault, highDefault
	case first-lowDefault >= countMin:
		return lowDefault, min(first, highDefault)
	case 65_536-(last+1) >= countMin:
		return last + 1, 65_536
	default:
		return lowDefault, highDefault
	}
}
