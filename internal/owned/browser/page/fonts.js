// Whether fonts are still loading after at most ms milliseconds.
lib.fontsPending = (ms) => document.fonts.status !== 'loading' ? false : Promise.race([
  document.fonts.ready.then(() => false),
  new Promise((done) => setTimeout(done, ms, true)),
]);
