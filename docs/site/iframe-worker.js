// Search in a site that is opened from a disk. Browsers start no Worker for a `file:` page, so this Worker runs its script in a hidden
// frame of the same page and carries the messages in both directions.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.queue = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      frame.onload = () => {
        this.scope = frame.contentWindow;
        // `importScripts` of a worker is synchronous; a frame loads the scripts one after the other.
        this.scope.importScripts = (...urls) => urls.reduce((loaded, one) => loaded.then(() => this.load(one)), Promise.resolve());
        this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
        this.load(url).then(() => {
          this.queue.forEach(data => this.send(data));
          this.queue = null;
        });
      };
      document.documentElement.append(frame);
    }

    load(url) {
      return new Promise((loaded, failed) => {
        const script = this.scope.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = loaded;
        script.onerror = failed;
        this.scope.document.head.append(script);
      });
    }

    send(data) {
      this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
    }

    postMessage(data) {
      this.queue ? this.queue.push(data) : this.send(data);
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    terminate() {}
  };
}
