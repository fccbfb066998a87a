package credential

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
)

// Codes is how many recovery codes a person has.
const Codes = 10

// alphabet of a code: 32 characters, none of which looks like another.
const alphabet = "abcdefghjkmnpqrstuvwxyz023456789"

// newCode draws 80 random bits as four groups of four.
func newCode() string {
	var b [16]byte
	rand.Read(b[:])
	var out strings.Builder
	for i, c := range b {
		if i > 0 && i%4 == 0 {
			out.WriteByte('-')
		}
		out.WriteByte(alphabet[c%32])
	}
	return out.String()
}

// normal answers a code as it was drawn, however a person wrote it down.
func normal(code string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(code) {
		if strings.ContainsRune(alphabet, r) {
			out.WriteRune(r)
		} else if r != '-' && r != ' ' {
			return ""
		}
	}
	if out.Len() != 16 {
		return ""
	}
	return out.String()
}

// renewCodes replaces a person's unused codes by ten new ones.
func (b *Book) renewCodes(tx *tx, person string) ([]string, error) {
	old, err := tx.Texts(`select code_hash from recovery_code where person=$1 and state=$2`, person, string(Unused))
	if err != nil {
		return nil, err
	}
	for _, h := range old {
		if _, err := move(tx, "recovery_code", h, Unused, Replaced); err != nil {
			return nil, err
		}
	}
	codes := make([]string, Codes)
	for i := range codes {
		codes[i] = newCode()
		_, err := tx.Exec(`insert into recovery_code (code_hash, person, state, created_ms, used_ms) values ($1,$2,$3,$4,0)`,
			hash(b.tenant+"\x00"+normal(codes[i])), person, string(Unused), time.Now().UnixMilli())
		if err != nil {
			return nil, err
		}
	}
	return codes, nil
}

// RecoveryCodes answers ten new codes, once; the person's older ones are good
// for nothing from then on.
func (b *Book) RecoveryCodes(ctx context.Context, person string) (codes []string, err error) {
	err = b.db.Update(ctx, func(tx *tx) error {
		if _, err := b.active(tx, person); err != nil {
			return err
		}
		if codes, err = b.renewCodes(tx, person); err != nil {
			return err
		}
		return b.audit(tx, "codes_renewed", person, person, "", count("codes", len(codes)))
	})
	return codes, err
}

// CodesLeft answers how many of a person's codes are unused.
func (b *Book) CodesLeft(ctx context.Context, person string) (left int, err error) {
	err = b.db.View(ctx, func(tx *tx) error {
		return tx.QueryRow(`select count(*) from recovery_code where person=$1 and state=$2`, person, string(Unused)).Scan(&left)
	})
	return left, err
}
