package oauth

import (
	"context"
	"time"

	"chaperone/internal/refusal"
)

// keep is how long a record that is over stays, so that a replay is told from a
// guess and the owner can still see what there was.
const keep = 30 * 24 * time.Hour

// Sweep ends what time has ended and drops what was over for thirty days. It
// answers the families that it ended, whose connections end with them: those
// past their end, and those whose code nobody redeemed. Run it about hourly, in
// any number of processes.
func (b *Book) Sweep(ctx context.Context) ([]Family, error) {
	var ended []Family
	err := b.db.Update(ctx, func(tx *tx) error {
		ended = nil
		now := time.Now()
		if _, err := b.forget(tx, `expires_ms<=$2`, now.UnixMilli()); err != nil {
			return err
		}
		if err := b.expire(tx, now); err != nil {
			return err
		}
		over, err := b.families(tx, `state=$2 and (ends_ms<=$3 or kind='consent' and id in (select family from oauth_code where state='expired'))`,
			string(Live), now.UnixMilli())
		if err != nil {
			return err
		}
		for _, f := range over {
			if err := b.end(tx, f, verbExpire, refusal.Expired); err != nil {
				return err
			}
			ended = append(ended, f.tell())
		}
		return b.drop(tx, now.Add(-keep).UnixMilli())
	})
	return ended, err
}

// expire moves requests and codes that nobody used.
func (b *Book) expire(tx *tx, now time.Time) error {
	for _, late := range []struct {
		record record
		query  string
	}{
		{aRequest, `select id from oauth_request where tenant=$1 and state='waiting' and expires_ms<=$2`},
		{aCode, `select hash from oauth_code where tenant=$1 and state='issued' and expires_ms<=$2`},
	} {
		keys, err := tx.Texts(late.query, b.tenant, now.UnixMilli())
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := move(tx, late.record, key, verbExpire); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop removes rows that are over. An access token has nothing to tell after its
// end; a spent refresh token stays as long as its family, to tell a replay.
func (b *Book) drop(tx *tx, before int64) error {
	for _, statement := range []string{
		`delete from oauth_request where tenant=$1 and state<>'waiting' and moved_ms<=$2`,
		`delete from oauth_token where tenant=$1 and kind='access' and expires_ms<=$2`,
		`delete from oauth_code where tenant=$1 and family in (select id from oauth_family where state<>'live' and moved_ms<=$2)`,
		`delete from oauth_token where tenant=$1 and family in (select id from oauth_family where state<>'live' and moved_ms<=$2)`,
		`delete from oauth_family where tenant=$1 and state<>'live' and moved_ms<=$2`,
	} {
		if _, err := tx.Exec(statement, b.tenant, before); err != nil {
			return err
		}
	}
	return nil
}
