package item

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"chaperone/internal/portal/tool"
	"chaperone/internal/refusal"
	"chaperone/internal/store"
)

// Claim answers the file that holds the content with that digest, or is to: the
// caller puts the content there, whole and synced, before it names the digest in
// a Change. The blob counts as used now.
func (b *Book) Claim(ctx context.Context, digest string, size int64) (file string, err error) {
	err = b.update(ctx, func(tx *store.Tx) error {
		now := time.Now().UnixMilli()
		err := tx.QueryRow(`select file from item_blob where digest=$1`, digest).Scan(&file)
		if err == nil {
			_, err = tx.Exec(`update item_blob set used_ms=$1 where digest=$2`, now, digest)
			return err
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		file = digest + "-" + drawVersion()[:16]
		_, err = tx.Exec(`insert into item_blob (digest, file, size, used_ms) values ($1,$2,$3,$4)`, digest, file, size, now)
		return err
	})
	return file, err
}

// File answers the file of that content, and whether there is one.
func (b *Book) File(ctx context.Context, digest string) (file string, there bool, err error) {
	err = b.db.View(ctx, func(tx *store.Tx) error {
		err := tx.QueryRow(`select file from item_blob where digest=$1`, digest).Scan(&file)
		if there = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return file, there, unavailable(err)
}

// Known tells whether a row still gives some content that file.
func (b *Book) Known(ctx context.Context, file string) (known bool, err error) {
	digest := file[:min(len(file), 64)]
	now, there, err := b.File(ctx, digest)
	return there && now == file, err
}

// holds refuses a change whose claim was swept meanwhile (its writer slept for
// longer than Grace).
func holds(tx *store.Tx, c Change) error {
	var file string
	err := tx.QueryRow(`select file from item_blob where digest=$1`, c.Digest).Scan(&file)
	if errors.Is(err, sql.ErrNoRows) || err == nil && file != c.File {
		return tool.Fail(tool.SourceUnavailable, "cause", string(refusal.Expired))
	}
	return err
}

// touch marks blobs as used now.
func touch(tx *store.Tx, digests ...string) error {
	for _, digest := range digests {
		if digest == "" {
			continue
		}
		if _, err := tx.Exec(`update item_blob set used_ms=$1 where digest=$2`, time.Now().UnixMilli(), digest); err != nil {
			return err
		}
	}
	return nil
}

// sweepAtOnce bounds one transaction of Sweep.
const sweepAtOnce = 100

// Sweep takes the rows of blobs that nothing names and nobody used for [Grace],
// and answers their files, which the caller removes. It also forgets lines of
// changes older than [Kept]. more tells whether to call it again.
func (b *Book) Sweep(ctx context.Context) (files []string, more bool, err error) {
	err = b.update(ctx, func(tx *store.Tx) (err error) {
		now := time.Now()
		if files, err = unused(tx, now.Add(-Grace).UnixMilli()); err != nil {
			return err
		}
		for _, file := range files {
			if _, err := tx.Exec(`delete from item_blob where file=$1`, file); err != nil {
				return err
			}
		}
		_, err = tx.Exec(`delete from item_change where tenant=$1 and at_ms<$2`, b.tenant, now.Add(-Kept).UnixMilli())
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return files, len(files) == sweepAtOnce, nil
}

func unused(tx *store.Tx, before int64) (files []string, err error) {
	rows, err := tx.Query(`select b.file from item_blob b where b.used_ms<$1
		and not exists (select 1 from item i where i.digest=b.digest) order by b.file limit $2`, before, sweepAtOnce)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var file string
		if err := rows.Scan(&file); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, rows.Err()
}
