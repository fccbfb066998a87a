package credential

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"time"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
)

// A signing key signs for 90 days; its public half is told for two days more.
const (
	keyLife  = 90 * 24 * time.Hour
	keyGrace = 48 * time.Hour
)

// SigningKey is one of the provider's keys, for ES256.
type SigningKey struct {
	ID      string
	Created time.Time
	Private *ecdsa.PrivateKey
}

// SigningKeys answers the keys that are told, the one that signs first. It makes
// one where there is none that still signs; nodes that race make one together.
func (b *Book) SigningKeys(ctx context.Context) (all []SigningKey, err error) {
	if err = b.db.View(ctx, func(tx *tx) error { all, err = b.keysOf(tx); return err }); err != nil {
		return nil, err
	}
	if len(all) > 0 && time.Since(all[0].Created) < keyLife {
		return all, nil
	}
	err = b.db.Update(ctx, func(tx *tx) error {
		if all, err = b.keysOf(tx); err != nil || len(all) > 0 && time.Since(all[0].Created) < keyLife {
			return err
		}
		made, err := b.makeKey(tx)
		all = append([]SigningKey{made}, all...)
		return err
	})
	return all, err
}

func (b *Book) makeKey(tx *tx) (SigningKey, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return SigningKey{}, err
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return SigningKey{}, err
	}
	k := SigningKey{ID: NewSecret()[:32], Created: time.Now(), Private: private}
	if _, err := tx.Exec(`insert into idp_key (id, tenant, algorithm, sealed, created_ms) values ($1,$2,'ES256',$3,$4)`,
		k.ID, b.tenant, b.seal("signing key", k.ID, hex.EncodeToString(der)), k.Created.UnixMilli()); err != nil {
		return SigningKey{}, err
	}
	return k, b.audit(tx, "key_made", "", "", "", audit.ID("key", k.ID))
}

func (b *Book) keysOf(tx *tx) ([]SigningKey, error) {
	rows, err := tx.Query(`select id, sealed, created_ms from idp_key where tenant=$1 and algorithm='ES256' and created_ms>$2 order by created_ms desc, id`,
		b.tenant, time.Now().Add(-keyLife-keyGrace).UnixMilli())
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []SigningKey
	for rows.Next() {
		var k SigningKey
		var sealed string
		var created int64
		if err := rows.Scan(&k.ID, &sealed, &created); err != nil {
			return nil, err
		}
		k.Created = time.UnixMilli(created)
		if k.Private, err = b.unsealKey(k.ID, sealed); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	return all, rows.Err()
}

func (b *Book) unsealKey(id, sealed string) (*ecdsa.PrivateKey, error) {
	text, err := b.open("signing key", id, sealed)
	if err != nil {
		return nil, err
	}
	der, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("a signing key doesn't decode: %w", refusal.Tampered)
	}
	return x509.ParseECPrivateKey(der)
}
