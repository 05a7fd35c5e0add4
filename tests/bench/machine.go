package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

// describeMachine tells under which conditions the figures were measured.
func (b *bench) describeMachine(ctx context.Context) error {
	m := &b.results.Machine
	m.Cores, m.OS, m.Go, m.At, m.Runs = runtime.NumCPU(), runtime.GOOS+"/"+runtime.GOARCH, runtime.Version(), time.Now().UTC(), b.runs
	m.PostgreSQLSettings = postgresSettings
	m.CPU = field("/proc/cpuinfo", "model name")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryGiB = float64(kib) / (1 << 20)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if _, err := fmt.Sscan(string(text), &m.Load); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, b.world.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "show server_version").Scan(&m.PostgreSQL); err != nil {
		return err
	}
	c, err := b.world.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	info, err := c.WorkflowService().GetSystemInfo(ctx, nil)
	if err != nil {
		return err
	}
	m.Temporal = info.GetServerVersion()
	m.Fdatasync, err = fdatasync()
	return err
}

// field is the first value of a name in one of the kernel's lists.
func field(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// fdatasync is how long a write of one page takes to be durable here, in microseconds: the median of many.
func fdatasync() (float64, error) {
	file, err := os.CreateTemp("", "payonce-bench-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	var took []float64
	page := make([]byte, 8192)
	for range 200 {
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, err
		}
		begun := time.Now()
		if err := file.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(begun).Nanoseconds())/1_000)
	}
	return median(took), nil
}

// watchMemory follows the memory of this process until peak is called, which is the most that it had, in MB.
func watchMemory(ctx context.Context) (peak func() float64) { return watchMemoryOf(ctx, os.Getpid()) }

func watchMemoryOf(ctx context.Context, pid int) (peak func() float64) {
	ctx, stop := context.WithCancel(ctx)
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		for {
			text := field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
			if kib, err := strconv.ParseInt(strings.TrimSuffix(text, " kB"), 10, 64); err == nil {
				most.Store(max(most.Load(), kib))
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() float64 {
		stop()
		<-done
		return float64(most.Load()) / 1_000
	}
}
