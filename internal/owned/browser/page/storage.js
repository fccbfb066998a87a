// fillStorage sets the storages of this document's origin and answers the origin
// once every item has been read back, else "".
function fillStorage(local, session) {
  try {
    for (const [storage, items] of [[localStorage, local], [sessionStorage, session]]) {
      for (const { name, value } of items ?? []) storage.setItem(name, value);
      for (const { name, value } of items ?? []) if (storage.getItem(name) !== value) return "";
    }
    return self.origin;
  } catch {
    return ""; // over its quota, or an origin without storage
  }
}

Object.assign(lib, { fillStorage });
