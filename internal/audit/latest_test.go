package audit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"chaperone/internal/audit"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// A person reads their own records backwards, page by page, and misses none.
func TestLatest(t *testing.T) {
	each(t, func(t *testing.T, l *fixture) {
		ctx := context.Background()
		for i := range 25 {
			e := event(i)
			e.Actor = fmt.Sprintf("person-%d", i%2)
			e.Public = append(e.Public, audit.Count("i", i))
			if err := l.db.Update(ctx, func(tx *store.Tx) error { return l.log.Append(tx, e) }); err != nil {
				t.Fatal(err)
			}
		}
		var got []int64
		cursor := ""
		for {
			page, err := audit.Latest(ctx, l.db, tenantOf(l), "person-1", cursor, 5)
			if err != nil {
				t.Fatal(err)
			}
			if page.Unsequenced+page.Size != 25 {
				t.Errorf("%d in the tree and %d not, want 25", page.Size, page.Unsequenced)
			}
			for _, r := range page.Records {
				got = append(got, r.Public["i"].(int64))
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		want := []int64{23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", got, want)
		}
		for _, bad := range []string{"x", "1", "-1-2", "1-", "1-2-3", "9999999999999999999-1"} {
			if _, err := audit.Latest(ctx, l.db, tenantOf(l), "", bad, 5); !errors.Is(err, refusal.BadDocument) {
				t.Errorf("cursor %q: %v", bad, err)
			}
		}
		l.close(t)
	})
}

// tenantOf answers the tenant in which the fixture's events are.
func tenantOf(l *fixture) string {
	tenant := ""
	audit.Records(context.Background(), l.db, audit.Filter{}, func(r audit.Record) error { tenant = r.Tenant; return nil })
	return tenant
}
