package tool

// CollectionsResult answers collections_list.
type CollectionsResult struct {
	Collections []Collection `json:"collections"`
	NextCursor  string       `json:"next_cursor,omitzero"`
}

// Collection is one row of it.
type Collection struct {
	Collection string `json:"collection"`
	Title      string `json:"title"`
	Source     string `json:"source"` // inbox, storage or external
	Functions  []Name `json:"functions"`
	ItemCount  *int64 `json:"item_count,omitzero"`
}

// ItemsResult answers items_list.
type ItemsResult struct {
	Items      []Item `json:"items"`
	NextCursor string `json:"next_cursor,omitzero"`
}

// Item is one row of it.
type Item struct {
	Item       string         `json:"item"`
	Title      string         `json:"title"`
	Version    string         `json:"version"`
	Size       int64          `json:"size"` // bytes
	MediaType  string         `json:"media_type"`
	ModifiedMS int64          `json:"modified_ms"`
	Metadata   map[string]any `json:"metadata,omitzero"`
}

// ReadResult answers item_read.
type ReadResult struct {
	Item      string         `json:"item"`
	Version   string         `json:"version"`
	MediaType string         `json:"media_type"`
	Size      int64          `json:"size"`     // bytes of the whole item
	Encoding  string         `json:"encoding"` // utf-8 or base64
	Content   string         `json:"content"`
	Truncated bool           `json:"truncated"`
	Metadata  map[string]any `json:"metadata"`
}

// WriteResult answers item_write.
type WriteResult struct {
	Item    string `json:"item"`
	Version string `json:"version"`
	Outcome string `json:"outcome"` // created, replaced, metadata_updated or moved
	Receipt string `json:"receipt"` // id of the durable mutation receipt
}

// DeleteResult answers item_delete.
type DeleteResult struct {
	Item    string `json:"item"`
	Outcome string `json:"outcome"` // deleted
	Receipt string `json:"receipt"`
}
