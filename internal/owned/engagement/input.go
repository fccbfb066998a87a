package engagement

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// The two keys of `configurable` that bind a run to its registration. The first
// is set here, on every turn, since servers merge what earlier turns had; the
// second is the server's alone to stamp.
const (
	engagementKey = "desktop_engagement_id"
	runKey        = "run_id"
)

// uuid is the one form of a server's ids that is let into a path or a file name.
var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// runBody is what creates a run. Disconnect is the lifeline, and a thread that
// already runs something refuses rather than queues: a second caller's browser
// would wait behind the first one's.
type runBody struct {
	Assistant  string         `json:"assistant_id"`
	Input      jsontext.Value `json:"input"`
	Config     jsontext.Value `json:"config"`
	Multitask  string         `json:"multitask_strategy"`
	Disconnect string         `json:"on_disconnect"`
	Mode       []string       `json:"stream_mode"`
}

// check refuses a Config that no turn can be made of, fills its defaults in and
// answers the body that creates the run.
func (c *Config) check() ([]byte, error) {
	bad := func(format string, args ...any) ([]byte, error) {
		return nil, fmt.Errorf(format+": %w", append(args, refusal.BadDocument)...)
	}
	if c.Host == nil {
		panic("engagement: Config without Host")
	}
	if c.Wait <= 0 {
		c.Wait = DefaultWait
	}
	if c.Patience <= 0 {
		c.Patience = DefaultPatience
	}
	switch {
	case !ownedv1.ValidID(c.Engagement):
		return bad("the engagement must match ^[A-Za-z0-9_-]{1,128}$")
	case c.Assistant == "":
		return bad("the assistant is missing")
	case c.Thread != "" && !uuid.MatchString(c.Thread):
		return bad("the thread must be a UUID, as the API made it")
	case !c.Input.IsValid():
		return bad("the input is no JSON value (or names a key twice)")
	}
	config, err := bound(c.Config, c.Engagement)
	if err != nil {
		return nil, err
	}
	return json.Marshal(runBody{c.Assistant, c.Input, config, "reject", "cancel", []string{"values"}})
}

// bound is the caller's configuration with the run's engagement in it, without a
// run id, and else as it was.
func bound(config jsontext.Value, engagement string) (jsontext.Value, error) {
	whole, err := members(config, "the config")
	if err != nil {
		return nil, err
	}
	configurable, err := members(whole["configurable"], "the config's configurable")
	if err != nil {
		return nil, err
	}
	delete(configurable, runKey)
	name, err := json.Marshal(engagement)
	if err != nil {
		return nil, err
	}
	configurable[engagementKey] = name
	if whole["configurable"], err = json.Marshal(configurable, json.Deterministic(true)); err != nil {
		return nil, err
	}
	return json.Marshal(whole, json.Deterministic(true))
}

// members are an object's, each as it was written; nothing and null have none.
func members(value jsontext.Value, what string) (map[string]jsontext.Value, error) {
	m := map[string]jsontext.Value{}
	if len(value) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(value, &m); err != nil {
		return nil, fmt.Errorf("%s is no JSON object (or names a key twice): %w", what, refusal.BadDocument)
	}
	if m == nil { // null
		m = map[string]jsontext.Value{}
	}
	return m, nil
}

const maxKey = 4096 // bytes

// ReadKey reads an API key from a private file: a regular one, closed to group
// and others, whose owner is this process's user (anybody's, for root).
func ReadKey(path string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("the API key file %s %s: %w", path, why, refusal.BadDocument)
	}
	// O_NONBLOCK: a FIFO in its place must not hold us up.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return bad("is a symlink: name the file itself")
	case err != nil:
		return bad("can't be opened: " + err.Error())
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	uid := uint32(os.Geteuid())
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return bad("is no regular file")
	case st.Mode&0o077 != 0:
		return bad(fmt.Sprintf("has mode %04o, which lets others read it: chmod 600 %s", st.Mode&0o777, path))
	case uid != 0 && st.Uid != uid:
		return bad(fmt.Sprintf("belongs to uid %d, not to you (uid %d)", st.Uid, uid))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return bad("can't be read")
	}
	key := strings.TrimSpace(string(data))
	plain := func(r rune) bool { return r <= ' ' || r > '~' }
	if key == "" || len(data) > maxKey || strings.ContainsFunc(key, plain) {
		return bad("holds no key: one line of printable ASCII is expected")
	}
	return key, nil
}
