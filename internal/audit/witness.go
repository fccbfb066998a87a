package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// readCheckpoints reads and opens every checkpoint below opts.CheckpointDir, by
// tenant and in order of size. What is wrong with one goes into the report.
func readCheckpoints(r *Report, opts VerifyOptions) (map[string][]Checkpoint, error) {
	all := map[string][]Checkpoint{}
	if opts.CheckpointDir == "" {
		return all, nil
	}
	entries, err := os.ReadDir(opts.CheckpointDir)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	keys, err := opts.keys()
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		tenant := entry.Name()
		if !entry.IsDir() || !isWord(tenant) || opts.Tenant != "" && tenant != opts.Tenant {
			continue
		}
		if all[tenant], err = readTenant(r, filepath.Join(opts.CheckpointDir, tenant), tenant, keys); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// readTenant reads one tenant's checkpoints.
func readTenant(r *Report, path, tenant string, keys []string) ([]Checkpoint, error) {
	numbers, err := published(path)
	if err != nil {
		return nil, err
	}
	var all []Checkpoint
	for i, number := range numbers {
		if want := int64(i + 1); number != want && (i == 0 || numbers[i-1] != number-1) {
			r.problem(tenant, -1, "checkpoints before %d are gone", number)
		}
		data, err := os.ReadFile(filepath.Join(path, fileName(number)))
		if err != nil {
			return nil, err
		}
		c, err := ParseCheckpoint(data, keys...)
		switch {
		case err != nil && len(keys) == 0:
			r.problem(tenant, -1, "checkpoint %d can't be verified: there is no key (audit.key of the home, or --key)", number)
		case err != nil:
			r.problem(tenant, -1, "checkpoint %d: %v", number, err)
		case c.Tenant != tenant || c.Number != number:
			r.problem(tenant, -1, "the file of checkpoint %d holds checkpoint %d of %s", number, c.Number, c.Tenant)
		case len(all) > 0 && c.Size < all[len(all)-1].Size:
			r.problem(tenant, -1, "checkpoint %d covers fewer records than the one before it", number)
		default:
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Checkpoint) int { return int(a.Number - b.Number) })
	return all, nil
}

// keys answers the public keys that may have signed.
func (opts VerifyOptions) keys() ([]string, error) {
	keys := slices.Clone(opts.Keys)
	if opts.KeyFile == "" {
		return keys, nil
	}
	k, err := readKey(opts.KeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return keys, nil
	case err != nil:
		return nil, fmt.Errorf("the key that verifies checkpoints: %w", err)
	}
	return append(keys, k.verifier), nil
}

// sameOwner tells whether who owns the database can rewrite the checkpoints: the
// same user, or root. Whoever runs this holds a PostgreSQL URL and the directory,
// so those are one owner too.
func sameOwner(db *store.DB, dir string) bool {
	file, err := os.Stat(db.Path())
	if err != nil {
		return true
	}
	folder, err := os.Stat(dir)
	if err != nil {
		return true
	}
	owner, ok := file.Sys().(*syscall.Stat_t)
	witness, also := folder.Sys().(*syscall.Stat_t)
	return !ok || !also || owner.Uid == witness.Uid || owner.Uid == 0 || folder.Mode().Perm()&0o002 != 0
}

// PublicKey answers the public half of the key at path, in the note package's
// text: what a verifier elsewhere is given to trust.
func PublicKey(path string) (string, error) {
	k, err := readKey(path)
	return k.verifier, err
}

// Newest answers a tenant's newest checkpoint and its file, after its signature
// was verified by the key at keyFile. refusal.Unknown where there is none.
func Newest(dir, tenant, keyFile string) (c Checkpoint, file string, err error) {
	if !isWord(tenant) {
		return Checkpoint{}, "", fault("", "tenant", "want letters, digits and ._:-")
	}
	path := filepath.Join(dir, tenant)
	numbers, err := published(path)
	if err == nil && len(numbers) == 0 {
		err = fmt.Errorf("%s has no checkpoint yet: %w", tenant, refusal.Unknown)
	}
	if err != nil {
		return Checkpoint{}, "", err
	}
	key, err := readKey(keyFile)
	if err != nil {
		return Checkpoint{}, "", err
	}
	file = filepath.Join(path, fileName(numbers[len(numbers)-1]))
	data, err := os.ReadFile(file)
	if err != nil {
		return Checkpoint{}, "", err
	}
	c, err = ParseCheckpoint(data, key.verifier)
	return c, file, err
}
