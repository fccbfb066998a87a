package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"
)

// Commit answers the build's own revision, 40 lower hex: what the version
// control stamped, else the start of the executable's SHA-256, so that an
// unstamped build is still told from another.
var Commit = sync.OnceValues(func() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) == 40 {
				return s.Value, nil
			}
		}
	}
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("this build's revision: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("this build's revision: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:40], nil
})
