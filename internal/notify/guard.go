package notify

import (
	"fmt"
	"net/netip"
	"syscall"
)

// addressError says that an address is not one of the public internet.
type addressError struct{ address netip.Addr }

func (e *addressError) Error() string {
	return fmt.Sprintf("%s is not a public address: %s allows it", e.address, EnvAllowPrivate)
}

// The networks that are not of the public internet, beside those that net/netip knows.
var notPublic = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // behind a carrier's NAT, and clouds' metadata
	"192.0.0.0/24",    // protocols
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"240.0.0.0/4",     // reserved
	"2001::/23",       // protocols, Teredo: an IPv4 address within
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4: an IPv4 address within
	"3fff::/20",       // documentation
)

// publicIPv6 is all that is given out. Without it are unique local addresses, NAT64 and what else has an IPv4 address within.
var publicIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// isPublic says whether an address is one of the public internet.
func isPublic(address netip.Addr) bool {
	address = address.Unmap().WithZone("")
	if !address.IsGlobalUnicast() || address.IsPrivate() || address.Is6() && !publicIPv6.Contains(address) {
		return false
	}
	for _, prefix := range notPublic {
		if prefix.Contains(address) {
			return false
		}
	}
	return true
}

// control is a net.Dialer's Control: it sees the address that is about to be connected to, after all names are resolved, so
// that no answer of a name server gets past it.
type control func(network, address string, _ syscall.RawConn) error

func allow(allowed func(netip.Addr) bool) control {
	return func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if !allowed(to.Addr()) {
			return &addressError{to.Addr()}
		}
		return nil
	}
}
