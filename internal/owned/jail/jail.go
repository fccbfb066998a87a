package jail

import "time"

// ProxyAddr is the box's only listener, on its own loopback. The engine is told
// to use it as its proxy; the parent serves it (see [Box.Listener]).
const ProxyAddr = "127.0.0.1:3128"

const proxyPort = 3128 // of ProxyAddr

// Folders of the box, all on its own /tmp, which vanishes with it.
const (
	ProfileDir  = "/tmp/profile" // the engine's --user-data-dir
	HomeDir     = "/tmp/home"    // $HOME
	UploadDir   = "/tmp/up"      // what [Box.WriteFile] writes
	DownloadDir = "/tmp/down"    // what the engine saves; the engine's download path
)

// Config says what runs in the box.
type Config struct {
	Engine  string   // the browser's ELF executable, absolute; see [FindEngine]
	Args    []string // all of its flags, without argv[0]
	Limits  Limits   // zero fields take the value of [DefaultLimits]
	HostUID int      // the box's uid on the host; 0 chooses a free one (root) or one's own
}

// Limits bound one box. A run over a limit of the tree dies alone, with the code
// over_limit; at a limit of a process the kernel refuses that process more.
type Limits struct {
	ProcessBytes int64         // private writable memory of each process (RLIMIT_DATA), bytes
	TreeBytes    int64         // resident anonymous and shared memory of all processes together, bytes
	TmpBytes     int64         // size of the box's /tmp: profile, caches, uploads, downloads; bytes
	ShmBytes     int64         // size of the box's /dev/shm, bytes
	FileBytes    int64         // the largest single file (RLIMIT_FSIZE), bytes
	Processes    int           // processes and threads together (RLIMIT_NPROC)
	Files        int           // open files of each process (RLIMIT_NOFILE)
	CPU          time.Duration // processor time of the whole tree over its life
}

// DefaultLimits are sized for one heavy page with a dozen tabs beside it.
func DefaultLimits() Limits {
	return Limits{
		ProcessBytes: 4 << 30,
		TreeBytes:    3 << 30,
		TmpBytes:     512 << 20,
		ShmBytes:     512 << 20,
		FileBytes:    512 << 20,
		Processes:    1024,
		Files:        4096,
		CPU:          4 * time.Hour,
	}
}

// Usage is what a box uses at one moment.
type Usage struct {
	RSSBytes  int64         // resident anonymous and shared memory of the tree, bytes
	Processes int           // living processes, the box's init included
	Threads   int           // their threads together
	CPU       time.Duration // processor time of the tree so far, ended processes included
}
