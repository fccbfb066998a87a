package browser

import (
	"context"
	"encoding/base64"

	"github.com/chromedp/cdproto/cdp"
	cdpio "github.com/chromedp/cdproto/io"
	"github.com/chromedp/cdproto/page"

	"chaperone/internal/owned/ownedv1"
	"chaperone/internal/refusal"
)

// pdfChunk is how much of a PDF crosses the pipe at once.
const pdfChunk = 1 << 20

// printPDF prints the page. The engine writes the document beside the pipe and it
// is read in parts, so neither its size nor its time meets a limit of the
// protocol: only the caller's deadline counts.
func printPDF(ctx context.Context, on *act, _ ownedv1.Action) (any, error) {
	t, err := on.page()
	if err != nil {
		return nil, err
	}
	yes := true
	var r page.PrintToPDFResult
	err = t.drawn(ctx, func(ctx context.Context) (err error) {
		r, err = cdp.Call(ctx, t.s, page.PrintToPDF, page.PrintToPDFParams{
			PrintBackground: &yes, PreferCSSPageSize: &yes, TransferMode: page.PrintToPDFTransferModeReturnAsStream,
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	defer t.s.post(cdpio.Close.Method, cdpio.CloseParams{Handle: r.Stream})
	pdf, err := t.stream(ctx, r.Stream, on.b.resultLimit()-100)
	if err != nil {
		return nil, err
	}
	return ownedv1.PDFResult{Format: "pdf", Bytes: len(pdf), Base64: base64.StdEncoding.EncodeToString(pdf)}, nil
}

// stream reads a stream of the engine to its end; limit is in bytes of base64.
func (t *tab) stream(ctx context.Context, id cdpio.StreamHandle, limit int) ([]byte, error) {
	var all []byte
	for {
		r, err := cdp.Call(ctx, t.s, cdpio.Read, cdpio.ReadParams{Handle: id, Size: pdfChunk})
		if err != nil {
			return nil, err
		}
		all = append(all, r.Data...)
		if base64.StdEncoding.EncodedLen(len(all)) > limit {
			return nil, failed(refusal.TooLarge, "the document is over the limit of a result")
		}
		if r.EOF {
			return all, nil
		}
	}
}
