package fleet

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/owned/scope"
	"chaperone/internal/refusal"
)

// Engagement is one scope that the operator offers.
type Engagement struct {
	Name   string
	Digest string       // of its scope; "" where the file can't be read as one
	Fault  refusal.Code // why it can't be used, "" where it can
}

// Engagements answers what the operator's folder offers now, by name. A folder
// that isn't there offers nothing; a bad file is told and offers nothing either.
func (f *Fleet) Engagements() ([]Engagement, error) {
	files, err := os.ReadDir(f.config.Engagements)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Engagement
	for _, file := range files {
		name, ok := strings.CutSuffix(file.Name(), ".yaml")
		if !ok || !ownedv1.ValidID(name) {
			continue
		}
		e := Engagement{Name: name}
		if s, err := f.scope(name); err != nil {
			e.Fault = refusal.BadDocument
		} else {
			e.Digest = s.Digest()
		}
		out = append(out, e)
	}
	return out, nil
}

// maxScope bounds a scope file.
const maxScope = 8 << 20

// scope reads an engagement's scope at each opening, so that an operator's change
// holds from the next browser on. The file must be the engagement it is named for.
func (f *Fleet) scope(name string) (*scope.Scope, error) {
	if !ownedv1.ValidID(name) {
		return nil, refusal.Unknown
	}
	file := filepath.Join(f.config.Engagements, name+".yaml")
	info, err := os.Lstat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil, refusal.Unknown
	}
	if info.Mode()&0o022 != 0 || info.Size() > maxScope {
		return nil, refusal.BadDocument // others could have written it
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s, err := scope.Parse(name+".yaml", data)
	if err != nil {
		return nil, errors.Join(refusal.BadDocument, err)
	}
	if s.Engagement() != name {
		return nil, refusal.BadDocument
	}
	return s, nil
}
