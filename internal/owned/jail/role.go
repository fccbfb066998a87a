package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// The roles of this executable besides its own. They are told by argv[0], which
// no caller of the ordinary command line can set by an argument.
const (
	roleSetup    = "chaperone-box-setup"
	roleInit     = "chaperone-box"
	roleGuardian = "chaperone-guardian"
	roleMounted  = "chaperone-mounted"
)

// A role needs this package and little else, and it starts twice for each box.
// Starting it here, before the packages that sort behind this one have set
// themselves up, saves a launch of the whole program some eight milliseconds.
func init() { Init() }

// Init runs the role for which this process was started and doesn't return, or
// returns at once in an ordinary process. Importing the package has done so
// already; the call, as the first line of main and of TestMain, tells the reader
// that this program has other lives.
func Init() {
	if len(os.Args) == 0 {
		return
	}
	switch os.Args[0] {
	case roleSetup:
		os.Exit(setUp())
	case roleInit:
		os.Exit(runInit())
	case roleGuardian:
		os.Exit(guard())
	case roleMounted:
		os.Exit(runMounted())
	}
}

// Descriptors of the box's init. Three and four become the engine's own.
const (
	fdCommands = 3 // engine reads CDP here
	fdAnswers  = 4 // engine writes CDP here
	fdControl  = 5 // SOCK_SEQPACKET to the parent; its end is the lifeline
)

// order is what the parent asks of both stages; each stage reads its own copy.
type order struct {
	Engine string   `json:"engine"` // empty: only probe
	Args   []string `json:"args"`
	Limits Limits   `json:"limits"`
}

// report is what the init tells the parent. Exactly one field group is set.
type report struct {
	Ready bool   `json:"ready,omitempty"` // stage one is done; three descriptors ride along
	Step  string `json:"step,omitempty"`  // this step failed …
	Errno int    `json:"errno,omitempty"` // … so
	Path  string `json:"path,omitempty"`  // … at this path, if it has one
	Exit  string `json:"exit,omitempty"`  // the engine ended like this
	Over  bool   `json:"over,omitempty"`  // … which was the kernel's answer to a limit
}

const maxOrder = 128 << 10 // bytes; below the default socket buffer

// errLifeline says that the parent is gone.
var errLifeline = errors.New("the parent is gone")

// readOrder reads one order from the control socket.
func readOrder() (order, error) {
	buf := make([]byte, maxOrder)
	n, err := unix.Read(fdControl, buf)
	if err != nil {
		return order{}, err
	}
	if n == 0 {
		return order{}, errLifeline
	}
	var o order
	return o, json.Unmarshal(buf[:n], &o)
}

// tell sends r and the descriptors to the parent. A parent that is gone can't be
// told, and its end already is ours.
func tell(r report, fds ...int) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(fdControl, data, rights, nil, unix.MSG_NOSIGNAL)
}

// fault is a step that failed, as it travels to the parent.
type fault struct {
	step, path string
	err        error
}

func (f *fault) Error() string { return fmt.Sprintf("%s %s: %v", f.step, f.path, f.err) }
func (f *fault) Unwrap() error { return f.err }

// at names the step (and path) at which err happened.
func at(step, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fault{step, path, err}
}

// fail tells the parent what went wrong and answers the exit status.
func fail(err error) int {
	if tell(reported(err)) != nil {
		return 3 // nobody is left to be told
	}
	return 2
}

// reported is a failure as it is told.
func reported(err error) report {
	r := report{Step: "box"}
	var f *fault
	if errors.As(err, &f) {
		r.Step, r.Path = f.step, f.path
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}
