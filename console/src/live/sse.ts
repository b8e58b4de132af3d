/**
 * Parses server-sent events. The browser's `EventSource` is not enough: it hides the status of a
 * refused request, and the keep-alive comments that distinguish a quiet stream from a dead one.
 */
export interface ServerEvent {
  event: string;
  data: string;
  id: string | null;
}

export class EventParser {
  #unfinishedLine = '';
  #event = '';
  #data: string[] = [];
  #id: string | null = null;

  /** Takes the next piece of text, split anywhere, and returns the events that are now complete. */
  feed(text: string): ServerEvent[] {
    const lines = (this.#unfinishedLine + text).split(/\r\n|\n|\r(?!$)/);
    this.#unfinishedLine = lines.pop() ?? '';
    return lines.flatMap((line) => this.#readLine(line) ?? []);
  }

  #readLine(line: string): ServerEvent | null {
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
