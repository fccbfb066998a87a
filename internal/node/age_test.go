package node_test

import (
	"testing"
	"time"

	"chaperone/internal/store"
)

// age makes every sign-in of the server that much older.
func (s *server) age(t *testing.T, by time.Duration) {
	t.Helper()
	db, err := store.Open(t.Context(), s.config.Database, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`update session set auth_ms=auth_ms-$1`, by.Milliseconds())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
