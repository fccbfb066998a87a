package store

import (
	"database/sql"
	"errors"
)

// Scanner is one row whose columns can be copied out, while it is given.
type Scanner interface{ Scan(into ...any) error }

// One reads at most one row into its columns and tells whether there was one.
func (tx *Tx) One(query string, args []any, into ...any) (bool, error) {
	err := tx.QueryRow(query, args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Each gives every row of a statement to row, until it fails.
func (tx *Tx) Each(query string, args []any, row func(Scanner) error) error {
	rows, err := tx.Query(query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Texts answers the one column of a statement's rows.
func (tx *Tx) Texts(query string, args ...any) (all []string, err error) {
	err = tx.Each(query, args, func(row Scanner) error {
		var s string
		if err := row.Scan(&s); err != nil {
			return err
		}
		all = append(all, s)
		return nil
	})
	return all, err
}
