// Makes the search of the site work in pages that the browser opens from a disk (`file:`). For such pages, browsers do not start a Worker.
// This replacement of `Worker` runs the script in a hidden frame of the page, and passes messages between the page and the frame.
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
        this.scope.importScripts = (...urls) => urls.reduce((previous, url) => previous.then(() => this.load(url)), Promise.resolve());
        this.scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
        this.load(url).then(() => {
          this.queue.forEach(data => this.send(data));
          this.queue = null;
        });
      };
      document.documentElement.append(frame);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.scope.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        script.onerror = reject;
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
