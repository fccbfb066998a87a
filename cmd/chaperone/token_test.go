package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"chaperone/internal/store"
)

// enrolled puts a person into the home's database, as an enrolment would:
// enrolled NAME. A script has no passkey to enrol with.
func enrolled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: enrolled NAME")
	}
	ctx := context.Background()
	db, err := store.Open(ctx, filepath.Join(ts.Getenv("CHAPERONE_HOME"), "chaperone.db"), store.Options{})
	ts.Check(err)
	ts.Check(db.Update(ctx, func(tx *store.Tx) error {
		_, err := tx.Exec(`insert into person (id, tenant, name, handle, roles, state, created_ms) values ($1,$2,$3,$4,$5,$6,1)`,
			"person-0123456789abcdef", localTenant, args[0], "00", "admin", "active")
		return err
	}))
	ts.Check(db.Close())
}

// revokeListed revokes each connection that a file names.
func revokeListed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: revoke-listed FILE")
	}
	text, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	for _, id := range regexp.MustCompile(`(?m)^[0-9a-f]{32}`).FindAllString(string(text), -1) {
		if err := ts.Exec("chaperone", "token", "revoke", id); err != nil || strings.Contains(id, " ") {
			ts.Fatalf("revoking %s: %v", id, err)
		}
	}
}
