// One web socket to this page's own process: the page says what it shows, and gets what is drawn,
// in parts, each only when it changed.
const RETRY_MS = 1000;
const SILENCE_MS = 6000; // it says something every second or two, if only that it lives

export class Connection {
  #socket = null;
  #heard = 0;
  #lostAt = null;

  constructor({ onParts, onLost }) {
    this.onParts = onParts;
    this.onLost = onLost;
    this.view = null;
    setInterval(() => this.#check(), 1000);
  }

  show(view) {
    const text = JSON.stringify(view);
    if (text === this.view) return;
    this.view = text;
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(text);
    else if (!this.#socket) this.#open();
  }

  #open() {
    const address = new URL("socket", document.baseURI);
    address.search = "";
    address.protocol = address.protocol.replace("http", "ws");
    const socket = new WebSocket(address);
    this.#socket = socket;
    this.#heard = Date.now();
    socket.onopen = () => this.view && socket.send(this.view);
    socket.onmessage = ({ data }) => {
      this.#heard = Date.now();
      this.#lostAt = null;
      this.onLost(null);
      this.onParts(JSON.parse(data));
    };
    socket.onclose = () => this.#lose(socket);
  }

  #lose(socket) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    this.#lostAt ??= Date.now();
    this.onLost(this.#lostAt);
    setTimeout(() => this.#socket || this.#open(), RETRY_MS);
  }

  #check() {
    const socket = this.#socket;
    if (!socket || Date.now() - this.#heard < SILENCE_MS) return;
    this.#lose(socket);
    socket.close();
  }
}
