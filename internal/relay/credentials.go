package relay

import (
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nats.go"
)

// credentials reads the secret: an nkey's seed, or a user and a password. The file is
// read again for each connection that needs an nkey, so no seed stays in memory.
func credentials(path string) (nats.Option, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("relay_credentials_file: %w", err)
	}
	if info.Mode()&0o077 != 0 {
		return nil, fmt.Errorf("relay_credentials_file: %s can be read by others: chmod 600 it, and take it as known to them", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("relay_credentials_file: %w", err)
	}
	text := strings.TrimSpace(string(data))
	if strings.HasPrefix(text, "SU") && !strings.Contains(text, ":") {
		option, err := nats.NkeyOptionFromSeed(path)
		if err != nil {
			return nil, fmt.Errorf("relay_credentials_file: %s holds no user's nkey seed", path)
		}
		return option, nil
	}
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" || password == "" || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("relay_credentials_file: %s must hold an nkey seed (SU…), or user:password, in one line", path)
	}
	return nats.UserInfo(user, password), nil
}
