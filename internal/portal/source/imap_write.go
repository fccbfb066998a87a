package source

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"

	"chaperone/internal/portal/tool"
)

// Write changes flags, keywords and folder of the message while its MODSEQ is
// IfVersion.
func (s *IMAP) Write(ctx context.Context, p Place, w Write) (done Written, err error) {
	if err := checkMail(w); err != nil {
		return Written{}, err
	}
	m, ok := parseMessage(w.Item)
	if !ok {
		return Written{}, errNotFound
	}
	begun := false // something that may have had an effect was sent
	err = s.do(ctx, p, func(c *session) error {
		done, err = s.write(c, m, w, &begun)
		return err
	})
	if begun {
		return done, sent(err)
	}
	return done, failed(err)
}

func (s *IMAP) write(c *session, m message, w Write, begun *bool) (Written, error) {
	b, data, err := c.find(m, true, described)
	if err != nil {
		return Written{}, err
	}
	if v := modSeq(b.ModSeq); v != w.IfVersion {
		return Written{}, conflict(v)
	}
	old := mailState(m.folder, b.Flags)
	next, err := apply(old, w.Metadata)
	if err != nil {
		return Written{}, err
	}
	if err := allowed(data.PermanentFlags, old, next); err != nil {
		return Written{}, err
	}
	flags := merge(b.Flags, next)
	if next.folder != m.folder {
		if err := c.exists(next.folder); err != nil {
			return Written{}, err
		}
		return s.move(c, m, w, flags, claimed(b.Flags), next, begun)
	}
	if claimed(b.Flags) {
		flags = append(flags, imap.Flag(claimKeyword)) // another's move goes on, or went
	}
	if err := s.at("looked"); err != nil {
		return Written{}, err
	}
	version, err := s.store(c, m, b.ModSeq, flags, begun)
	if err != nil {
		return Written{}, err
	}
	if err := s.at("stored"); err != nil {
		return Written{}, err
	}
	return Written{w.Item, version, w.IfVersion, Updated}, nil
}

// merge answers the flags of the next state: those that the contract doesn't speak
// of stay.
func merge(have []imap.Flag, next state) []imap.Flag {
	var all []imap.Flag
	for _, f := range have {
		switch name := strings.ToLower(string(f)); {
		case !strings.HasPrefix(name, "\\"), name == "\\seen", name == "\\flagged", name == "\\answered", name == "\\recent":
		default:
			all = append(all, f)
		}
	}
	for f, set := range map[imap.Flag]bool{imap.FlagSeen: next.seen, imap.FlagFlagged: next.flagged, imap.FlagAnswered: next.answered} {
		if set {
			all = append(all, f)
		}
	}
	for _, k := range next.keywords {
		all = append(all, imap.Flag(k))
	}
	return all
}

func claimed(flags []imap.Flag) bool {
	return slices.ContainsFunc(flags, func(f imap.Flag) bool { return strings.EqualFold(string(f), claimKeyword) })
}

// allowed refuses keywords that the folder can't keep.
func allowed(permanent []imap.Flag, old, next state) error {
	if slices.Contains(permanent, imap.FlagWildcard) {
		return nil
	}
	for _, k := range next.keywords {
		known := slices.ContainsFunc(permanent, func(f imap.Flag) bool { return strings.EqualFold(string(f), k) })
		if !known && !slices.Contains(old.keywords, k) {
			return invalid("/metadata/keywords", "enum")
		}
	}
	return nil
}

// exists refuses a folder that isn't there.
func (c *session) exists(folder string) error {
	all, err := c.folders()
	if err != nil {
		return err
	}
	if !slices.Contains(all, folder) {
		return invalid("/metadata/folder", "enum")
	}
	return nil
}

// store sets the flags where the message's MODSEQ is still since, and answers the
// new version.
func (s *IMAP) store(c *session, m message, since uint64, flags []imap.Flag, begun *bool) (string, error) {
	*begun = true
	c.wire.listen()
	_, err := c.Store(imap.UIDSetNum(m.uid), &imap.StoreFlags{Op: imap.StoreFlagsSet, Flags: flags}, &imap.StoreOptions{UnchangedSince: since}).Collect()
	stale := c.wire.modified()
	if _, refused := errors.AsType[*imap.Error](err); refused && !stale {
		return "", errUnavailable // NO or BAD: it did nothing
	}
	if err != nil && !stale {
		return "", err
	}
	now, _, err := c.again(m)
	if err != nil {
		return "", err
	}
	if stale {
		return "", conflict(modSeq(now))
	}
	return modSeq(now), nil
}

// again answers the message's MODSEQ and flags in the folder that is open.
func (c *session) again(m message) (uint64, []imap.Flag, error) {
	got, err := c.fetch(imap.UIDSetNum(m.uid), &imap.FetchOptions{UID: true, Flags: true, ModSeq: true})
	if err != nil {
		return 0, nil, err
	}
	if got[m.uid] == nil {
		return 0, nil, errNotFound
	}
	return got[m.uid].ModSeq, got[m.uid].Flags, nil
}

// move claims the message, moves it and cleans up; see the type's comment.
func (s *IMAP) move(c *session, m message, w Write, flags []imap.Flag, wasClaimed bool, next state, begun *bool) (Written, error) {
	since, _ := strconv.ParseUint(w.IfVersion, 10, 64) // equals a MODSEQ that was just read
	claim := flags
	if !wasClaimed { // turn it: a claim that changes nothing would be won twice
		claim = append(slices.Clone(flags), imap.Flag(claimKeyword))
	}
	if err := s.at("looked"); err != nil {
		return Written{}, err
	}
	if _, err := s.store(c, m, since, claim, begun); err != nil {
		return Written{}, err
	}
	if err := s.at("claimed"); err != nil {
		return Written{}, err
	}
	moved, err := c.Move(imap.UIDSetNum(m.uid), next.folder).Wait()
	if err != nil {
		return Written{}, errUnknown // the flags may stand, the move may not
	}
	if err := s.at("moved"); err != nil {
		return Written{}, err
	}
	to := message{folder: next.folder, validity: moved.UIDValidity}
	if to.uid = only(moved.DestUIDs); to.uid == 0 || to.validity == 0 {
		return Written{}, errUnknown // it is there, and the server doesn't say under which number
	}
	if _, err := c.open(to.folder, true); err != nil {
		return Written{}, errUnknown
	}
	clear := &imap.StoreFlags{Op: imap.StoreFlagsDel, Silent: true, Flags: []imap.Flag{claimKeyword}}
	if err := c.Store(imap.UIDSetNum(to.uid), clear, nil).Close(); err != nil {
		return Written{}, errUnknown
	}
	version, _, err := c.again(to)
	id, ok := to.id()
	if err != nil || !ok {
		return Written{}, errUnknown
	}
	return Written{id, modSeq(version), w.IfVersion, Moved}, nil
}

// only answers the set's one number, or 0.
func only(set imap.NumSet) imap.UID {
	if all, err := numbers(set); err == nil && len(all) == 1 {
		return all[0]
	}
	return 0
}

// Settle looks at the message: its MODSEQ is IfVersion (it didn't happen), or its
// state is what the write asks for. A message that is gone may have been moved: it
// is looked for among those that still carry the claim.
func (s *IMAP) Settle(ctx context.Context, p Place, w Write) (done Written, settled Settled, err error) {
	m, ok := parseMessage(w.Item)
	if !ok || checkMail(w) != nil {
		return Written{}, Not, nil
	}
	err = s.do(ctx, p, func(c *session) error {
		done, settled, err = c.settle(m, w)
		return err
	})
	if err != nil {
		return Written{}, Unknown, failed(err)
	}
	return done, settled, nil
}

func (c *session) settle(m message, w Write) (Written, Settled, error) {
	b, _, err := c.find(m, false, described)
	if errors.Is(err, tool.NotFound) {
		return c.settleMoved(m, w)
	}
	if err != nil {
		return Written{}, Unknown, err
	}
	if modSeq(b.ModSeq) == w.IfVersion {
		return Written{}, Not, nil
	}
	now := mailState(m.folder, b.Flags)
	if to, moves := w.Metadata["folder"].(string); moves && to != m.folder {
		return Written{}, Unknown, nil // not moved, and something changed
	}
	want, err := apply(now, w.Metadata)
	if err != nil || !want.same(now) {
		return Written{}, Unknown, nil
	}
	return Written{w.Item, modSeq(b.ModSeq), w.IfVersion, Updated}, Done, nil
}

// settleMoved looks for a message that a crash left between its move and the end
// of its claim.
func (c *session) settleMoved(m message, w Write) (Written, Settled, error) {
	to, moves := w.Metadata["folder"].(string)
	if !moves || to == m.folder {
		return Written{}, Unknown, nil
	}
	data, err := c.open(to, true)
	if errors.Is(err, tool.NotFound) {
		return Written{}, Unknown, nil
	}
	if err != nil {
		return Written{}, Unknown, err
	}
	found, err := c.UIDSearch(&imap.SearchCriteria{Flag: []imap.Flag{claimKeyword}}, nil).Wait()
	if err != nil {
		return Written{}, Unknown, err
	}
	uids, err := numbers(found.All)
	if err != nil || len(uids) != 1 {
		return Written{}, Unknown, err
	}
	at := message{to, data.UIDValidity, uids[0]}
	version, flags, err := c.again(at)
	if err != nil {
		return Written{}, Unknown, err
	}
	now := mailState(to, flags)
	want, err := apply(now, w.Metadata)
	id, ok := at.id()
	if err != nil || !ok || !want.same(now) {
		return Written{}, Unknown, nil
	}
	return Written{id, modSeq(version), w.IfVersion, Moved}, Done, nil
}
