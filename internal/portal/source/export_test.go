package source

// Stop makes fn run at each named step of a change; its error ends the change
// there, as a crash would.
func (h *Hosted) Stop(fn func(step string) error)  { h.step = fn }
func (m *Maildir) Stop(fn func(step string) error) { m.step = fn }
func (s *IMAP) Stop(fn func(step string) error)    { s.step = fn }
func (s *S3) Stop(fn func(step string) error)      { s.step = fn }

// Decoders and encoders for fuzz targets.
var (
	EncodeName  = encodeName
	DecodeName  = decodeName
	ReadCursor  = readCursor
	Cursor      = cursor
	ParseFile   = parseFile
	FormatFile  = formatFile
	ParseMailID = parseMailID
	DavPath     = davPath
	DavURL      = davURL
	NameKey     = nameKey
	KeyName     = keyName
	Clean       = clean
	ReadHeader  = func(b []byte) (from, to, subject, date string) {
		h := readHeader(b)
		return h.from, h.to, h.subject, h.date
	}
	ParseMessage = func(id string) (again string, ok bool) {
		m, ok := parseMessage(id)
		if !ok {
			return "", false
		}
		return m.id()
	}
	EntryName  = entryName
	FolderName = folderName
	FolderDir  = folderDir
	MailID     = func(folder, unique string) (string, bool) { return entry{folder: folder, unique: unique}.id() }
)
