package source

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"

	"chaperone/internal/canon"
	"chaperone/internal/portal/tool"
)

// S3 is storage in a bucket of an S3-compatible server: an object an item, written
// with If-None-Match or If-Match and deleted with If-Match.
//
// An object is the item's content and 32 more bytes, the mark of the write that
// made it. A server's ETag speaks of an object's bytes alone; without the mark in
// them, writing the same content (or other metadata) twice would give one ETag,
// and If-Match would let a second writer through. With it a version, which is the
// ETag, never comes again. User metadata hold the mark again, the item's metadata
// and the last versions with their marks, by which a lost answer is settled.
//
// A delete is first a conditional write of an object without content, the sign that
// the item is gone, and then the removal of that sign: a server may tell everyone
// whose delete found nothing that it was theirs. A crash in between leaves the
// sign, which is no item; a create replaces it once nobody can be removing it.
//
// Requests aren't repeated by the client: a repeated conditional write would refuse
// itself. Before the first change of a process the server is tried with an object
// of its own; one that lets a failed condition through is never written to.
type S3 struct {
	config S3Config
	client *s3.Client
	http   *http.Client
	step   func(step string) error // tests stop here; nil elsewhere

	proven  atomic.Bool   // the server keeps conditions
	turn    chan struct{} // holds one: who has it tries the server, and owns attempt
	attempt time.Time     // of the last trial that failed
}

const (
	markLen     = 32
	maxUserMeta = 1200 // bytes of an item's metadata as JSON; S3 keeps 2 KB in all
	maxHistory  = 8
	headsAtOnce = 8
)

// NewS3 answers the source; nothing is sent yet.
func NewS3(c S3Config) (*S3, error) {
	if err := c.validate("sources.storage.s3"); err != nil {
		return nil, err
	}
	h, err := httpClient(c.Endpoint, c.CAFile)
	if err != nil {
		return nil, errors.New("sources.storage.s3: ca_file can't be used")
	}
	keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		secret, err := readSecret(c.SecretKeyFile)
		return aws.Credentials{AccessKeyID: c.AccessKey, SecretAccessKey: secret}, err
	})
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(c.Endpoint), Region: c.Region, UsePathStyle: true, HTTPClient: h,
		Credentials: aws.NewCredentialsCache(keys), Retryer: aws.NopRetryer{}, RuntimeEnvironment: aws.RuntimeEnvironment{},
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	})
	return &S3{config: c, client: client, http: h, turn: make(chan struct{}, 1)}, nil
}

// Close ends the idle connections.
func (s *S3) Close() error {
	s.http.CloseIdleConnections()
	return nil
}

// Functions: all four.
func (s *S3) Functions() []tool.Name {
	return []tool.Name{tool.ListItems, tool.ReadItem, tool.WriteItem, tool.DeleteItem}
}

// under answers the beginning of the place's keys.
func (s *S3) under(p Place) string {
	return strings.Join(append([]string{strings.Trim(s.config.Prefix, "/")}, placePath(p)...), "/") + "/"
}

func (s *S3) key(p Place, id string) (string, error) {
	if !tool.ValidItem(id) {
		return "", invalid("/item", "text")
	}
	key := s.under(p) + nameKey(id, true)
	if len(key) > maxKey {
		return "", invalid("/item", "maxLength")
	}
	return key, nil
}

// object is what HEAD tells of an item.
type object struct {
	Item
	etag    string // as the server writes it
	mark    string
	history []past // oldest first
	gone    bool   // deleted: what is left is the sign of it
}

// past is a version that was replaced, and the mark of the write that made it.
type past struct{ mark, version string }

// readObject judges what a server tells of an object. One that isn't ours has no
// mark and is no item.
func readObject(id string, etag, mediaType *string, size int64, modified *time.Time, user map[string]string) (object, error) {
	o := object{Item: Item{Item: id, Title: title(id), Size: size - markLen, MediaType: "application/octet-stream", Metadata: map[string]any{}}}
	for name, value := range user {
		switch strings.ToLower(name) {
		case "chaperone-mark":
			o.mark = value
		case "chaperone-gone":
			o.gone = true
		case "chaperone-metadata":
			raw, err := base64url.DecodeString(value)
			if err != nil || json.Unmarshal(raw, &o.Metadata, integers) != nil {
				return object{}, errUnavailable
			}
		case "chaperone-history":
			for entry := range strings.SplitSeq(value, ",") {
				if mark, version, ok := strings.Cut(entry, ":"); ok {
					o.history = append(o.history, past{mark, version})
				}
			}
		}
	}
	if etag == nil || o.mark == "" || o.Size < 0 {
		return object{}, errNotFound
	}
	o.etag, o.Version = *etag, etagVersion(*etag)
	if mediaType != nil && validType(*mediaType) {
		o.MediaType = *mediaType
	}
	if modified != nil {
		o.Modified = modified.UTC()
	}
	return o, nil
}

// etagVersion answers a version for an ETag: itself where it is short and plain.
func etagVersion(etag string) string {
	bare := strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if bare != "" && len(bare) <= 100 && strings.Trim(bare, "0123456789abcdefABCDEFGHIJKLMNOPQRSTUVWXYZghijklmnopqrstuvwxyz-_.") == "" {
		return bare
	}
	return "e-" + digest(etag)
}

// head answers the item's object.
func (s *S3) head(ctx context.Context, p Place, id string) (object, error) {
	o, err := s.look(ctx, p, id)
	if err == nil && o.gone {
		err = errNotFound
	}
	return o, err
}

// look answers the object, also the sign of a deleted item.
func (s *S3) look(ctx context.Context, p Place, id string) (object, error) {
	key, err := s.key(p, id)
	if err != nil {
		return object{}, err
	}
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.config.Bucket, Key: &key})
	if err != nil {
		return object{}, refused(err)
	}
	return readObject(id, out.ETag, out.ContentType, aws.ToInt64(out.ContentLength), out.LastModified, out.Metadata)
}

// Stat answers the item.
func (s *S3) Stat(ctx context.Context, p Place, id string) (Item, error) {
	o, err := s.head(ctx, p, id)
	return o.Item, failed(err)
}

// Count answers how many items there are, or that it can't be told for there are
// too many to look at.
func (s *S3) Count(ctx context.Context, p Place) (int, bool, error) {
	n, pages, under := 0, 0, s.under(p)
	pager := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: &under})
	for pager.HasMorePages() {
		if pages++; pages > 20 {
			return n, false, nil
		}
		out, err := pager.NextPage(ctx)
		if err != nil {
			return 0, false, failed(refused(err))
		}
		for _, c := range out.Contents {
			if _, ok := keyName(strings.TrimPrefix(aws.ToString(c.Key), under)); ok {
				n++
			}
		}
	}
	return n, true, nil
}

// List answers items in the order of their keys.
func (s *S3) List(ctx context.Context, p Place, q Query) (Page, error) {
	under := s.under(p)
	in := &s3.ListObjectsV2Input{Bucket: &s.config.Bucket, Prefix: aws.String(under + nameKey(q.Prefix, false)), MaxKeys: aws.Int32(int32(min(q.Limit+1, 1000)))}
	if q.Query != "" {
		in.MaxKeys = aws.Int32(1000)
	}
	if q.Cursor != "" {
		parts, err := readCursor("s3", q.Cursor, 1)
		if err != nil {
			return Page{}, err
		}
		after, err := s.key(p, parts[0])
		if err != nil {
			return Page{}, invalid("/cursor", "pattern")
		}
		in.StartAfter = &after
	}
	var names []string
	more := false
	pager := s3.NewListObjectsV2Paginator(s.client, in)
	for pager.HasMorePages() && !more {
		out, err := pager.NextPage(ctx)
		if err != nil {
			return Page{}, failed(refused(err))
		}
		for _, c := range out.Contents {
			key, ours := strings.CutPrefix(aws.ToString(c.Key), under)
			id, ok := keyName(key)
			if !ours || !ok || !tool.ValidItem(id) || !strings.HasPrefix(id, q.Prefix) || !matches(title(id), q.Query) {
				continue
			}
			if more = len(names) == q.Limit; more {
				break
			}
			names = append(names, id)
		}
	}
	page, err := s.describe(ctx, p, names)
	if err == nil && more {
		page.Next = cursor("s3", names[len(names)-1])
	}
	return page, err
}

// describe looks at the named objects; those that are gone by now are left out.
func (s *S3) describe(ctx context.Context, p Place, names []string) (Page, error) {
	found := make([]*object, len(names))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for i, id := range names {
		g.Go(func() error {
			o, err := s.head(ctx, p, id)
			switch {
			case err == nil:
				found[i] = &o
			case !errors.Is(err, tool.NotFound):
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return Page{}, failed(err)
	}
	page := Page{Items: []Item{}}
	for _, o := range found {
		if o != nil {
			page.Items = append(page.Items, o.Item)
		}
	}
	return page, nil
}

// Read answers a part by one request, so of one version.
func (s *S3) Read(ctx context.Context, p Place, id string, offset int64, max int) (Content, error) {
	if err := checkRead(offset, max); err != nil {
		return Content{}, err
	}
	key, err := s.key(p, id)
	if err != nil {
		return Content{}, err
	}
	span := "bytes=" + strconv.FormatInt(offset, 10) + "-" + strconv.FormatInt(offset+int64(max)-1, 10)
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.config.Bucket, Key: &key, Range: &span})
	if status(err) == http.StatusRequestedRangeNotSatisfiable {
		o, err := s.head(ctx, p, id)
		return Content{Item: o.Item, Bytes: []byte{}, Offset: offset}, failed(err)
	}
	if err != nil {
		return Content{}, failed(refused(err))
	}
	defer out.Body.Close()
	o, err := readObject(id, out.ETag, out.ContentType, total(out), out.LastModified, out.Metadata)
	if err == nil && o.gone {
		err = errNotFound
	}
	if err != nil {
		return Content{}, err
	}
	bytes, err := io.ReadAll(io.LimitReader(out.Body, int64(max)+1))
	if err != nil || len(bytes) > max {
		return Content{}, errUnavailable
	}
	bytes = bytes[:min(int64(len(bytes)), maxZero(o.Size-offset))] // without the mark
	if int64(len(bytes)) < min(int64(max), maxZero(o.Size-offset)) {
		return Content{}, errUnavailable // shorter than it says
	}
	return Content{o.Item, bytes, offset, offset+int64(len(bytes)) < o.Size}, nil
}

// total answers a whole object's size from the answer to a request for a part.
func total(out *s3.GetObjectOutput) int64 {
	if out.ContentRange == nil {
		return aws.ToInt64(out.ContentLength)
	}
	_, size, _ := strings.Cut(*out.ContentRange, "/")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// userMetadata answers what lies beside an object.
func userMetadata(mark string, metadata map[string]any, history []past) (map[string]string, error) {
	text, err := canon.Marshal(metadata)
	if err != nil {
		return nil, invalid("/metadata", "type")
	}
	if len(text) > maxUserMeta {
		return nil, tool.Fail(tool.TooLarge, "limit", maxUserMeta)
	}
	var entries []string
	for _, h := range history[max(0, len(history)-maxHistory):] {
		entries = append(entries, h.mark+":"+h.version)
	}
	user := map[string]string{"chaperone-mark": mark, "chaperone-metadata": base64url.EncodeToString(text)}
	if len(entries) > 0 {
		user["chaperone-history"] = strings.Join(entries, ",")
	}
	return user, nil
}

// status answers the HTTP status of a failed request, 0 where there was none.
func status(err error) int {
	if told, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		return told.HTTPStatusCode()
	}
	return 0
}

// refused maps a failed request. What may have taken effect is an error that
// isn't a *tool.Error: sent makes unknown_outcome of it, failed source_unavailable.
func refused(err error) error {
	if err == nil {
		return nil
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return errUnavailable
	}
	if told, ok := errors.AsType[smithy.APIError](err); ok {
		switch told.ErrorCode() {
		case "NoSuchKey", "NotFound":
			return errNotFound
		case "NoSuchBucket", "AccessDenied", "Forbidden", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken":
			return errDisconnected
		case "EntityTooLarge":
			return tool.Fail(tool.TooLarge)
		case "QuotaExceeded":
			return tool.Fail(tool.QuotaExceeded)
		}
	}
	switch code := status(err); {
	case code == http.StatusNotFound:
		return errNotFound
	case code == http.StatusForbidden || code == http.StatusUnauthorized:
		return errDisconnected
	case code == http.StatusPreconditionFailed || code == http.StatusConflict:
		return errPrecondition
	case code >= 300 && code < 500:
		return errUnavailable
	}
	return errAnswerLost
}

// integers reads numbers as int64: metadata has no others.
var integers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	var n int64
	if err := json.UnmarshalDecode(dec, &n); err != nil {
		return err
	}
	*v = n
	return nil
}))

var (
	errPrecondition = tool.Fail(tool.VersionConflict)
	errAnswerLost   = errors.New("the server's answer didn't come")
)
