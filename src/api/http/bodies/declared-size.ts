/** The size of a body: declared by the headers before it is read, measured afterwards. */
import type { FastifyRequest } from 'fastify';

/** A chunked body may become as large as the route allows. */
export function declaredBytes({ headers }: Pick<FastifyRequest, 'headers'>, maxBytes: number): number {
  const length = Number(headers['content-length']);
  if (headers['content-length'] !== undefined && Number.isInteger(length)) return Math.min(length, maxBytes);
  return headers['transfer-encoding'] === undefined ? 0 : maxBytes;
}

/** After the body was read. The text of a chunked body is not kept, so its content is measured. */
export function receivedBytes({ headers, body }: Pick<FastifyRequest, 'headers' | 'body'>): number {
  if (headers['transfer-encoding'] === undefined) return Number(headers['content-length']) || 0;
  return Buffer.byteLength(typeof body === 'string' ? body : JSON.stringify(body ?? null));
}
