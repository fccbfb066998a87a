package source

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"chaperone/internal/portal/tool"
)

// Write creates the object if there is none, or replaces that version.
func (s *S3) Write(ctx context.Context, p Place, w Write) (Written, error) {
	if err := checkWrite(w); err != nil {
		return Written{}, err
	}
	key, err := s.key(p, w.Item)
	if err != nil {
		return Written{}, err
	}
	if err := s.prove(ctx); err != nil {
		return Written{}, failed(err)
	}
	in := &s3.PutObjectInput{Bucket: &s.config.Bucket, Key: &key}
	done := Written{Item: w.Item, Outcome: Created}
	content, mediaType, metadata, history := w.Content, w.MediaType, w.Metadata, []past(nil)
	if w.IfAbsent {
		in.IfNoneMatch = aws.String("*")
	} else {
		old, whole, err := s.before(ctx, p, w)
		if err != nil {
			return Written{}, failed(err)
		}
		in.IfMatch, done.Before, done.Outcome = &old.etag, old.Version, Replaced
		if !w.HasContent {
			content, done.Outcome = whole, Updated
		}
		if mediaType == "" {
			mediaType = old.MediaType
		}
		if metadata == nil {
			metadata = old.Metadata
		}
		history = append(slices.Clone(old.history), past{old.mark, old.Version})
	}
	if mediaType == "" {
		mediaType = "application/octet-stream"
	}
	if in.Metadata, err = userMetadata(w.Mark, metadata, history); err != nil {
		return Written{}, err
	}
	in.ContentType, in.Body = &mediaType, bytes.NewReader(slices.Concat(content, []byte(w.Mark)))
	if err := s.at("looked"); err != nil {
		return Written{}, failed(err)
	}
	out, err := s.put(ctx, p, w, in)
	if err == nil {
		err = s.at("put")
	}
	if err != nil {
		return Written{}, s.notPut(ctx, p, w, err)
	}
	if out.ETag == nil {
		return Written{}, errUnknown
	}
	done.Version = etagVersion(*out.ETag)
	return done, nil
}

// put sends the write. A create that finds the sign of a deleted item replaces that
// sign, and nothing else.
func (s *S3) put(ctx context.Context, p Place, w Write, in *s3.PutObjectInput) (*s3.PutObjectOutput, error) {
	out, err := s.client.PutObject(ctx, in)
	if !w.IfAbsent || status(err) != http.StatusPreconditionFailed {
		return out, err
	}
	now, lookErr := s.look(ctx, p, w.Item)
	if lookErr != nil || !now.gone {
		return out, err
	}
	if time.Since(now.Modified) < signAge {
		return nil, errUnavailable // its remover may be at it
	}
	if _, err := in.Body.(io.Seeker).Seek(0, io.SeekStart); err != nil {
		return nil, errUnavailable
	}
	in.IfNoneMatch, in.IfMatch = nil, &now.etag
	return s.client.PutObject(ctx, in)
}

// signAge is how old a sign must be until a create replaces it: longer than any
// call that removes one may take.
const signAge = 30 * time.Second

// before answers the object that the write replaces, and its content where the
// write brings none.
func (s *S3) before(ctx context.Context, p Place, w Write) (object, []byte, error) {
	old, err := s.head(ctx, p, w.Item)
	if err != nil {
		return object{}, nil, err
	}
	if old.Version != w.IfVersion {
		return object{}, nil, conflict(old.Version)
	}
	if w.HasContent {
		return old, nil, nil
	}
	key, err := s.key(p, w.Item)
	if err != nil {
		return object{}, nil, err
	}
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.config.Bucket, Key: &key, IfMatch: &old.etag})
	if err != nil {
		if err = refused(err); errors.Is(err, tool.VersionConflict) {
			err = s.changed(ctx, p, w)
		}
		return object{}, nil, err
	}
	defer out.Body.Close()
	whole, err := io.ReadAll(io.LimitReader(out.Body, old.Size+markLen+1))
	if err != nil || int64(len(whole)) != old.Size+markLen {
		return object{}, nil, errUnavailable
	}
	return old, whole[:old.Size], nil
}

// notPut tells why a write wasn't made, or that nobody knows.
func (s *S3) notPut(ctx context.Context, p Place, w Write, err error) error {
	if err = refused(err); !errors.Is(err, tool.VersionConflict) {
		return sent(err)
	}
	return failed(s.changed(ctx, p, w))
}

// changed looks at what there is after the server refused a condition.
func (s *S3) changed(ctx context.Context, p Place, w Write) error {
	now, err := s.head(ctx, p, w.Item)
	switch {
	case errors.Is(err, tool.NotFound) && !w.IfAbsent:
		return errNotFound
	case err != nil:
		return errUnavailable // refused, so it had no effect
	case w.IfAbsent:
		return tool.Fail(tool.AlreadyExists)
	case now.Version == w.IfVersion:
		return errUnavailable // another write at the same time: try again
	}
	return conflict(now.Version)
}

// Delete removes that version.
func (s *S3) Delete(ctx context.Context, p Place, id, ifVersion, mark string) error {
	key, err := s.key(p, id)
	if err != nil {
		return err
	}
	if err := s.prove(ctx); err != nil {
		return failed(err)
	}
	old, err := s.head(ctx, p, id)
	if err != nil {
		return failed(err)
	}
	if old.Version != ifVersion {
		return conflict(old.Version)
	}
	if err := s.at("looked"); err != nil {
		return failed(err)
	}
	user, err := userMetadata(mark, map[string]any{}, append(slices.Clone(old.history), past{old.mark, old.Version}))
	if err != nil {
		return err
	}
	user["chaperone-gone"] = "1"
	out, err := s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.config.Bucket, Key: &key, IfMatch: &old.etag, Metadata: user, Body: strings.NewReader(mark)})
	if err == nil {
		err = s.at("buried")
	}
	if err != nil {
		return s.notPut(ctx, p, Write{Item: id, IfVersion: ifVersion}, err)
	}
	// The item is gone. A sign that can't be removed now stays one.
	if out.ETag != nil {
		_, _ = s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.config.Bucket, Key: &key, IfMatch: out.ETag})
	}
	return sent(s.at("deleted"))
}

// Settle tells it by the mark: the object's own, or one of those that it replaced.
// It asks once the write's deadline is over, so nothing of it is under way.
func (s *S3) Settle(ctx context.Context, p Place, w Write) (Written, Settled, error) {
	now, err := s.look(ctx, p, w.Item)
	switch {
	case errors.Is(err, tool.NotFound) && w.IfAbsent:
		return Written{}, Not, nil
	case errors.Is(err, tool.NotFound):
		return Written{}, Unknown, nil // deleted since: that may have been after it
	case err != nil:
		return Written{}, Unknown, failed(err)
	}
	chain := append(slices.Clone(now.history), past{now.mark, now.Version})
	before := ""
	for _, h := range chain {
		if h.mark == w.Mark {
			return Written{w.Item, h.version, before, outcomeNamed(w)}, Done, nil
		}
		before = h.version
	}
	for _, h := range chain {
		if !w.IfAbsent && h.version == w.IfVersion {
			return Written{}, Not, nil // it stands, or another write replaced it
		}
	}
	return Written{}, Unknown, nil
}

func outcomeNamed(w Write) string {
	switch {
	case w.IfAbsent:
		return Created
	case w.HasContent:
		return Replaced
	}
	return Updated
}

// SettleDelete looks whether that version is gone. Which delete took it can't be
// told, and leaves the same.
func (s *S3) SettleDelete(ctx context.Context, p Place, id, ifVersion, mark string) (Settled, error) {
	now, err := s.look(ctx, p, id)
	switch {
	case errors.Is(err, tool.NotFound) || err == nil && now.gone && now.mark == mark:
		return Done, nil
	case err != nil:
		return Unknown, failed(err)
	case now.gone: // another delete, of another version or of this one
		return Unknown, nil
	case now.Version == ifVersion || slices.ContainsFunc(now.history, func(h past) bool { return h.version == ifVersion }):
		return Not, nil
	}
	return Unknown, nil
}

// proveAgain is how long a server that failed the trial isn't tried again.
const proveAgain = 30 * time.Second

// prove tries once whether the server keeps conditions: a source that can't refuse
// a second writer must not have a first.
func (s *S3) prove(ctx context.Context) error {
	if s.proven.Load() {
		return nil
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return errUnavailable
	}
	if s.proven.Load() {
		return nil
	}
	if time.Since(s.attempt) < proveAgain {
		return tool.Fail(tool.SourceDisconnected, "cause", "conditions")
	}
	held, err := s.try(ctx)
	if err != nil {
		return err
	}
	if !held {
		s.attempt = time.Now()
		return tool.Fail(tool.SourceDisconnected, "cause", "conditions")
	}
	s.proven.Store(true)
	return nil
}

// try writes an object of its own and answers whether every condition that doesn't
// hold is refused.
func (s *S3) try(ctx context.Context) (held bool, err error) {
	key := s.under(Place{Account{"chaperone", "trial"}, "conditions", drawMark()}) + "trial!"
	put := func(ifMatch, ifNoneMatch *string) (*s3.PutObjectOutput, error) {
		return s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.config.Bucket, Key: &key, Body: bytes.NewReader([]byte("trial")), IfMatch: ifMatch, IfNoneMatch: ifNoneMatch})
	}
	first, err := put(nil, aws.String("*"))
	if err != nil {
		return false, failed(refused(err))
	}
	wrong := aws.String(`"00000000000000000000000000000000"`)
	_, again := put(nil, aws.String("*"))
	_, other := put(wrong, nil)
	_, gone := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.config.Bucket, Key: &key, IfMatch: wrong})
	held = true
	for _, err := range []error{again, other, gone} {
		if err == nil {
			held = false
		} else if status(err) != http.StatusPreconditionFailed {
			return false, errUnavailable
		}
	}
	if _, err := s.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &s.config.Bucket, Key: &key, IfMatch: first.ETag}); err != nil && held {
		return false, failed(refused(err))
	}
	return held, nil
}

func (s *S3) at(step string) error {
	if s.step == nil {
		return nil
	}
	return s.step(step)
}
