package source

import (
	"strconv"
	"strings"

	"github.com/emersion/go-imap/v2"
)

// message names one on an IMAP server for as long as its folder lives:
// FOLDER;UIDVALIDITY;UID.
type message struct {
	folder   string
	validity uint32
	uid      imap.UID
}

// folderPart answers a folder's name as it stands in ids.
func folderPart(folder string) (string, bool) {
	if !strings.Contains(folder, ";") {
		return encodeName(folder)
	}
	part := "~" + base64url.EncodeToString([]byte(folder))
	return part, true
}

func (m message) id() (string, bool) {
	part, ok := folderPart(m.folder)
	id := part + ";" + strconv.FormatUint(uint64(m.validity), 10) + ";" + strconv.FormatUint(uint64(m.uid), 10)
	return id, ok && len(id) <= maxItem
}

// parseMessage reads an id and accepts only the one form that id writes.
func parseMessage(id string) (message, bool) {
	parts := strings.Split(id, ";")
	if len(parts) != 3 {
		return message{}, false
	}
	folder := parts[0]
	if coded, is := strings.CutPrefix(folder, "~"); is {
		raw, err := base64url.DecodeString(coded)
		if err != nil {
			return message{}, false
		}
		folder = string(raw)
	}
	validity, err1 := strconv.ParseUint(parts[1], 10, 32)
	uid, err2 := strconv.ParseUint(parts[2], 10, 32)
	m := message{folder, uint32(validity), imap.UID(uid)}
	again, ok := m.id()
	return m, err1 == nil && err2 == nil && validity > 0 && uid > 0 && ok && again == id
}
