// The link is the view: filters and the open node stand in the query string.

export class Link {
  constructor() {
    this.values = new URLSearchParams(location.search);
  }

  get(name) {
    return this.values.get(name);
  }

  put(name, value) {
    this.values = new URLSearchParams(location.search);
    if (value === null || value === undefined || value === "") this.values.delete(name);
    else this.values.set(name, value);
    const query = this.values.toString();
    return `${location.pathname}${query ? `?${query}` : ""}`;
  }

  set(name, value) {
    history.replaceState(null, "", this.put(name, value));
  }

  // A step that Back undoes.
  push(name, value) {
    if ((this.get(name) ?? null) === (value ?? null)) return;
    history.pushState(null, "", this.put(name, value));
  }
}
