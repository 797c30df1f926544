// The search runs in a worker, which a page opened from disk may not start: there it runs in a hidden frame of the page.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(url) {
      this.onmessage = this.onmessageerror = this.onerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inner = this.frame.contentWindow;
      inner.postMessage = (data) => setTimeout(() => this.onmessage && this.onmessage({ data }));
      const script = inner.document.createElement("script");
      this.ready = new Promise((done) => (script.onload = done));
      script.onerror = () => this.onerror && this.onerror(new Event("error", { cancelable: true }));
      script.src = new URL(url, location.href).href;
      inner.document.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.isConnected && this.frame.contentWindow.onmessage({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
