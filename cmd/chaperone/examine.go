package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"chaperone/internal/owned/browser"
	"chaperone/internal/owned/jail"
)

// examine tries all that Chaperone needs. Where one thing rests on another that
// is missing, only the other is told.
func (a *app) examine(ctx context.Context, engine string) []finding {
	found := []finding{place()}
	box := examineBox(ctx)
	found = append(found, box)
	path, err := jail.FindEngine(engine)
	if err != nil {
		found = append(found, judged("browser", err, ""))
	} else if box.State == fine {
		found = append(found, examineBrowser(ctx, path))
	} else {
		found = append(found, finding{"browser", noted, path + ", not tried as it has no box", ""})
	}
	return append(found, examineFonts(), a.examineHome(), a.examineDisk(), examineMemory(), examineFiles(), examineClock())
}

// place tells what kind of machine this is, where that matters.
func place() finding {
	const name = "machine"
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return finding{name, missing, err.Error(), "run chaperone on Linux"}
	}
	release := unix.ByteSliceToString(uts.Release[:])
	if strings.Contains(strings.ToLower(release), "microsoft") {
		return finding{name, noted, "Linux " + release + " under Windows: forwarding from Windows or Docker Desktop is rejected", ""}
	}
	if marks := containerMarks(); marks != "" {
		return finding{name, noted, "Linux " + release + ", with marks of a container (" + marks + "): if it is one, owned browsers are unsupported here", ""}
	}
	return finding{name, fine, "Linux " + release, ""}
}

// containerMarks names the files that container runtimes leave. They prove
// nothing: a machine made from an image has them too. So the box is tried anyway.
func containerMarks() string {
	var marks []string
	for _, path := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Lstat(path); err == nil {
			marks = append(marks, path)
		}
	}
	return strings.Join(marks, ", ")
}

// examineBox builds a box without an engine.
func examineBox(ctx context.Context) finding {
	begin := time.Now()
	if err := jail.Probe(ctx); err != nil {
		return judged("box", err, "run chaperone on the host or in a virtual machine with Linux 5.14 or newer")
	}
	return finding{"box", fine, fmt.Sprintf("namespaces, mounts, /dev/shm of its own, seccomp: built and removed in %d ms", time.Since(begin).Milliseconds()), ""}
}

// examineBrowser starts the browser in a box, as every run does, and asks it who
// it is.
func examineBrowser(ctx context.Context, path string) finding {
	const name, mend = "browser", "apt-get install -y --reinstall chromium-headless-shell"
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	begin := time.Now()
	box, err := jail.Start(ctx, jail.Config{Engine: path, Args: browser.Flags(jail.ProxyAddr, "")})
	if err != nil {
		return judged(name, err, mend)
	}
	stop := context.AfterFunc(ctx, func() { box.Close() })
	product, err := version(box.Pipe())
	took := time.Since(begin)
	stop()
	words := box.LastWords()
	err = errors.Join(err, box.Close())
	if err != nil {
		return finding{name, missing, fmt.Sprintf("%s doesn't answer in its box: %v; its last words: %s", path, err, words), mend}
	}
	return finding{name, fine, fmt.Sprintf("%s, %s, answers in its box after %d ms", product, path, took.Milliseconds()), ""}
}

// version asks a browser for its product name over CDP.
func version(pipe io.ReadWriter) (string, error) {
	if _, err := io.WriteString(pipe, `{"id":1,"method":"Browser.getVersion"}`+"\x00"); err != nil {
		return "", err
	}
	data, err := bufio.NewReader(io.LimitReader(pipe, 1<<16)).ReadBytes(0)
	if err != nil {
		return "", err
	}
	var answer struct {
		Result struct {
			Product string `json:"product"`
		} `json:"result"`
	}
	err = json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &answer)
	if err == nil && answer.Result.Product == "" {
		err = errors.New("no product name")
	}
	return answer.Result.Product, err
}

// examineFonts looks for one font: without any, pages have no letters.
func examineFonts() finding {
	kinds := []string{".ttf", ".otf", ".ttc", ".pfb", ".pcf", ".gz"}
	errFound := errors.New("found")
	for _, dir := range []string{"/usr/share/fonts", "/usr/local/share/fonts"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && slices.Contains(kinds, filepath.Ext(path)) {
				return errFound
			}
			return nil // what can't be read has no fonts for the box either
		})
		if errors.Is(err, errFound) {
			return finding{"fonts", fine, "below " + dir, ""}
		}
	}
	return finding{"fonts", missing, "no font is installed: pages would have no letters", "apt-get install -y fonts-dejavu-core fonts-liberation"}
}

// examineHome checks who can read the home. One that isn't there will be made.
func (a *app) examineHome() finding {
	const name = "home"
	home, err := a.homeDir()
	if err != nil {
		return finding{name, missing, err.Error(), "export CHAPERONE_HOME=/var/lib/chaperone"}
	}
	var st unix.Stat_t
	switch err := unix.Lstat(home, &st); {
	case errors.Is(err, unix.ENOENT):
		if err := unix.Access(existing(home), unix.W_OK); err != nil {
			return finding{name, missing, home + " can't be made: " + err.Error(), "chaperone doctor --home DIR, with a directory of yours"}
		}
		return finding{name, fine, home + " (made at first use)", ""}
	case err != nil:
		return finding{name, missing, home + ": " + err.Error(), "chaperone doctor --home DIR, with a directory of yours"}
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return finding{name, missing, home + " isn't a directory", "mv " + quoted(home) + " " + quoted(home+".old")}
	case int(st.Uid) != os.Geteuid():
		return finding{name, missing, fmt.Sprintf("%s belongs to uid %d", home, st.Uid), fmt.Sprintf("chown %d %s", os.Geteuid(), quoted(home))}
	case st.Mode&unix.S_ISVTX != 0: // a folder that is everybody's on purpose, as /tmp: leave it so
		return finding{name, missing, home + " is shared by all users", "chaperone doctor --home DIR, with a directory of yours"}
	case st.Mode&0o077 != 0:
		return finding{name, missing, fmt.Sprintf("%s can be read by others (mode %04o)", home, st.Mode&0o7777), "chmod 700 " + quoted(home)}
	}
	return finding{name, fine, home, ""}
}

// existing is the nearest folder of path that is there.
func existing(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		path = filepath.Dir(path)
	}
	return path
}

// quoted is path as one word of a shell.
func quoted(path string) string {
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// examineDisk wants room for the database; browsers keep theirs in memory.
func (a *app) examineDisk() finding {
	const name, need = "disk", 200 << 20
	home, err := a.homeDir()
	if err != nil {
		return finding{name, noted, "not looked at, as there is no home", ""}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(existing(home), &st); err != nil {
		return finding{name, missing, err.Error(), "chaperone doctor --home DIR, with a directory of yours"}
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < need {
		return finding{name, missing, fmt.Sprintf("%d MiB free where the home is; %d MiB are needed", free>>20, need>>20), "chaperone --home DIR …, on a larger disk"}
	}
	return finding{name, fine, fmt.Sprintf("%d GiB free", free>>30), ""}
}

// examineMemory wants room for one browser with a heavy page.
func examineMemory() finding {
	const name, need = "memory", 700 << 20
	data, err := os.ReadFile("/proc/meminfo")
	var free uint64
	for line := range strings.Lines(string(data)) {
		if _, scanErr := fmt.Sscanf(line, "MemAvailable: %d kB", &free); scanErr == nil {
			break
		}
	}
	switch {
	case err != nil || free == 0:
		return finding{name, noted, "not known", ""}
	case free<<10 < need:
		return finding{name, noted, fmt.Sprintf("%d MiB available; a heavy page takes up to %d MiB", free>>10, need>>20), ""}
	}
	return finding{name, fine, fmt.Sprintf("%.1f GiB available; a run takes about 130 MiB, a heavy page 250 MiB", float64(free)/(1<<20)), ""}
}

// examineFiles wants descriptors for a browser and its proxy's connections.
func examineFiles() finding {
	const name, need = "open files", 1024
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return finding{name, missing, err.Error(), "ulimit -n 4096"}
	}
	if r.Max < need {
		return finding{name, missing, fmt.Sprintf("at most %d; %d are needed", r.Max, need), "ulimit -n 4096"}
	}
	return finding{name, fine, fmt.Sprintf("up to %d", r.Max), ""}
}

// examineClock compares the clock with the one moment that is surely past: this
// build. Expiries, windows of scopes and certificates all hang on it.
func examineClock() finding {
	const name, mend = "clock", "timedatectl set-ntp true"
	now := time.Now()
	past := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if t, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
				past = t
			}
		}
	}
	if now.Before(past) {
		return finding{name, missing, fmt.Sprintf("%s is before this program was built (%s)", now.UTC().Format(time.DateTime), past.Format(time.DateOnly)), mend}
	}
	return finding{name, fine, now.UTC().Format(time.DateTime) + " UTC", ""}
}
