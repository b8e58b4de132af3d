/**
 * Parses server-sent events from a byte stream. Not the browser's `EventSource`, which hides the
 * keep-alive comments that tell a quiet stream from a dead one, and the status of a refused
 * request.
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

  /** Takes text cut anywhere, and returns the events it completes. */
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
