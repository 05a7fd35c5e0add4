package devstack

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// parent is a process of its own that runs a stack.
type parent struct {
	cmd    *exec.Cmd
	report helperReport
}

// startParent runs the helper. tmp is its folder for temporary files; acc, if
// not nil, the account to run it under.
func startParent(t testing.TB, tmp string, acc *syscall.Credential, extraEnv ...string) *parent {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	env := append(without(os.Environ(), "TMPDIR="), helperEnv+"=1", "TMPDIR="+tmp)
	if acc != nil {
		// Where the test binary and the CLI are, others may not go.
		bin := publicDir(t)
		program = place(t, program, filepath.Join(bin, "helper"))
		cli, err := TemporalBinary(within(t), nil)
		require.NoError(t, err)
		place(t, cli, filepath.Join(bin, "temporal"))
		env = append(without(env, "HOME=", "XDG_", "GO"), "HOME=/nonexistent", "PATH="+bin+":"+os.Getenv("PATH"))
	}
	cmd := exec.Command(program)
	cmd.Env = append(env, extraEnv...)
	cmd.Dir = "/"
	cmd.Stderr = t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: acc}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &parent{cmd: cmd}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	require.NoError(t, err, "the parent must report its stack")
	require.NoError(t, json.Unmarshal(line, &p.report))
	for _, pid := range p.report.PIDs {
		require.False(t, gone(pid))
	}
	return p
}

func (p *parent) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// place links or copies a program to where everyone may run it.
func place(t testing.TB, from, to string) string {
	t.Helper()
	if os.Link(from, to) == nil {
		return to
	}
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
	return to
}

// accounts are who to run a parent as: ourselves, and, when we are root, an
// ordinary user.
func accounts(t testing.TB) map[string]*syscall.Credential {
	all := map[string]*syscall.Credential{"as ourselves": nil}
	if os.Geteuid() == 0 {
		u, err := user.Lookup("nobody")
		require.NoError(t, err)
		uid, err := parseID(u.Uid)
		require.NoError(t, err)
		gid, err := parseID(u.Gid)
		require.NoError(t, err)
		all["as an ordinary user"] = &syscall.Credential{Uid: uid, Gid: gid}
	}
	return all
}

// temporaryFolder returns a TMPDIR for that account.
func temporaryFolder(t testing.TB) string {
	t.Helper()
	tmp := publicDir(t)
	require.NoError(t, os.Chmod(tmp, 0o777|os.ModeSticky))
	return tmp
}

// TestKilledParentLeavesNothing kills the process that runs a stack, in a way
// that it can't see coming.
func TestKilledParentLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, acc := range accounts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := temporaryFolder(t)
			p := startParent(t, tmp, acc)
			if acc != nil {
				require.Equal(t, int(acc.Uid), p.report.User)
			}
			p.kill()
			for _, pid := range p.report.PIDs {
				eventually(t, "a server must die with its parent", func() bool { return gone(pid) })
			}

			// The folders are left, until the next start by the same user.
			for _, dir := range p.report.Dirs {
				require.DirExists(t, dir)
				eventually(t, "the last of a server's children must die too", func() bool { return serverGone(t, dir) })
			}
			next := startParent(t, tmp, acc)
			for _, dir := range p.report.Dirs {
				require.NoDirExists(t, dir)
			}
			for _, dir := range next.report.Dirs {
				require.DirExists(t, dir)
			}
			// And the folders of a live parent stay.
			startParent(t, tmp, acc)
			for _, dir := range next.report.Dirs {
				require.DirExists(t, dir)
			}
		})
	}
}

// serverGone reports whether the lock that a server and its children inherit is
// free.
func serverGone(t testing.TB, dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, serverLock), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	ok, err := tryLock(f)
	require.NoError(t, err)
	return ok
}

// TestKilledParentsFolderCanBeUsedAtOnce starts on a given folder while the
// servers of a killed parent may still be shutting down in it.
func TestKilledParentsFolderCanBeUsedAtOnce(t *testing.T) {
	t.Parallel()
	tmp, dir := temporaryFolder(t), publicDir(t)
	for range 3 {
		startParent(t, tmp, nil, helperEnv+"_DIR="+dir).kill()
	}
	newStack(t, Config{Dir: dir})
}

// TestInterruptedParentLeavesNothing is Ctrl-C: the terminal interrupts the
// whole process group of the parent, which must not include the servers.
func TestInterruptedParentLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, acc := range accounts(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tmp := temporaryFolder(t)
			p := startParent(t, tmp, acc)
			require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT))
			require.NoError(t, p.cmd.Wait(), "the parent must end in good order")
			for _, pid := range p.report.PIDs {
				require.True(t, gone(pid))
			}
			left, err := os.ReadDir(tmp)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

// TestStaleFolders has folders of all kinds lie around.
func TestStaleFolders(t *testing.T) {
	t.Parallel()
	base := publicDir(t)
	live, err := openWorkdir("", nil, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, live.close()) }()
	folder := func(name string, locks ...string) string {
		dir := filepath.Join(base, workdirPrefix+name)
		require.NoError(t, os.Mkdir(dir, 0o700))
		for _, lock := range locks {
			require.NoError(t, os.WriteFile(filepath.Join(dir, lock), nil, 0o600))
		}
		return dir
	}
	stale := folder("stale", ownerLock, serverLock)
	never := folder("never-ran", ownerLock)
	fresh := folder("being-made")
	stopping := folder("stopping", ownerLock, serverLock)
	server, err := os.OpenFile(filepath.Join(stopping, serverLock), os.O_RDWR, 0)
	require.NoError(t, err)
	defer server.Close()
	ok, err := tryLock(server)
	require.NoError(t, err)
	require.True(t, ok)
	other := filepath.Join(base, "other")
	require.NoError(t, os.Mkdir(other, 0o700))

	removeStale(base, nil)
	for _, dir := range []string{stale, never} {
		require.NoDirExists(t, dir)
	}
	for _, dir := range []string{fresh, stopping, other, live.path} {
		require.DirExists(t, dir)
	}
	require.NoError(t, server.Close())
	removeStale(base, nil)
	require.NoDirExists(t, stopping)
}

// TestWatchdog is about the stand-in for a death signal on systems without one.
func TestWatchdog(t *testing.T) {
	t.Parallel()
	t.Run("ends what its parent leaves", func(t *testing.T) {
		p := startParent(t, temporaryFolder(t), nil, helperEnv+"=watchdog")
		p.kill()
		for _, pid := range p.report.PIDs {
			eventually(t, "the server and its watchdog must die with their parent", func() bool { return gone(pid) })
		}
	})
	t.Run("ends with its server", func(t *testing.T) {
		cmd := exec.Command("sleep", "1000")
		dog, err := watch(cmd, syscall.SIGINT)
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		dog.started()
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		dog.ended()
		require.True(t, gone(dog.process.Pid))
	})
	t.Run("ends without a server", func(t *testing.T) {
		cmd := exec.Command("/nowhere")
		dog, err := watch(cmd, syscall.SIGINT)
		require.NoError(t, err)
		require.Error(t, cmd.Start())
		dog.ended()
		require.True(t, gone(dog.process.Pid))
	})
}

func TestPorts(t *testing.T) {
	t.Parallel()
	low, high := portRange()
	seen := make(map[int]bool)
	for range 50 {
		p, err := reservePort(0)
		require.NoError(t, err)
		defer p.release()
		require.False(t, seen[p.number], "a port that is ours is not given out again")
		seen[p.number] = true
		require.GreaterOrEqual(t, p.number, low)
		require.Less(t, p.number, high)
	}
	if raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		first, err := strconv.Atoi(strings.Fields(string(raw))[0])
		require.NoError(t, err)
		last, err := strconv.Atoi(strings.Fields(string(raw))[1])
		require.NoError(t, err)
		if first >= 22_000 || last <= 63_000 {
			require.True(t, high <= first || low > last, "outgoing connections must not take our ports")
		}
	}
	p, err := reservePort(0)
	require.NoError(t, err)
	l, err := net.Listen("tcp", p.address())
	require.NoError(t, err, "the port is free for the server")
	require.NoError(t, l.Close())
	p.release()
	p.release()
}
