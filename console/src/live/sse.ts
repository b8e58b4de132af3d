/**
 * Server-sent events out of a byte stream. Not the browser's `EventSource`: that hides the keep-alive comments by which
 * we tell a quiet stream from a dead one, and the status and problem of a refused request.
 */
export interface ServerEvent {
  event: string;
  data: string;
  id: string | null;
}

export class EventParser {
  #rest = '';
  #event = '';
  #data: string[] = [];
  #id: string | null = null;

  /** Takes text as it comes, cut anywhere, and returns the events that it completes. */
  feed(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? '';
    return lines.flatMap((line) => this.#line(line) ?? []);
  }

  #line(line: string): ServerEvent | null {
    if (line === '') return this.#complete();
    if (line.startsWith(':')) return null;
    const colon = line.indexOf(':');
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#event = value;
    if (field === 'data') this.#data.push(value);
    if (field === 'id' && !value.includes('\0')) this.#id = value;
    return null;
  }

  #complete(): ServerEvent | null {
    const ready = this.#data.length > 0 || this.#id !== null;
    const event = { event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id };
    this.#event = '';
    this.#data = [];
    this.#id = null;
    return ready ? event : null;
  }
}
