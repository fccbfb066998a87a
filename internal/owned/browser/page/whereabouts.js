// The status comes from the navigation's own timing: 0 where nothing was fetched.
lib.whereabouts = () => ({
  title: document.title,
  status: performance.getEntriesByType('navigation')[0]?.responseStatus ?? 0,
});
