/** Reads exact numbers of bytes from chunks of any size. */
export class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #parts: Buffer[] = [];
  #bytes = 0;

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Returns fewer bytes only at the end of the input. */
  async read(length: number): Promise<Buffer> {
    while (this.#bytes < length) {
      const { value, done } = await this.#chunks.next();
      if (done) break;
      this.#parts.push(value);
      this.#bytes += value.length;
    }
    const all = this.#parts.length === 1 ? (this.#parts[0] as Buffer) : Buffer.concat(this.#parts);
    const rest = all.subarray(length);
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#bytes = rest.length;
    return all.subarray(0, length);
  }

  /** Stops the input. */
  async close(): Promise<void> {
    await this.#chunks.return?.();
  }
}
