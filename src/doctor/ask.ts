/**
 * Sends one request to the server over its own connection, and returns the body or the layer that
 * failed.
 */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { trustedWith } from '../base/network/trusted-certificates.ts';
import { errorName, faultOfError } from '../contract/errors/path-faults.ts';
import { failed, type Outcome, type Patient } from './examination.ts';
import { within } from './path-checks.ts';

export interface Question {
  method: 'GET' | 'POST';
  path: string;
  bearer?: string | null;
  body?: object;
}

/** The requested body, or an outcome that ends the layer. */
export type Heard = { body: Record<string, unknown> } | { outcome: Outcome };

interface Reply {
  status: number;
  text: string;
}

const maxReplyBytes = 1024 * 1024;
const shownBytes = 120;

const exchange = ({ url, ca, correlation_id, signal }: Patient, { method, path, bearer, body }: Question) =>
  new Promise<Reply>((resolve, reject) => {
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest;
    const text = body && JSON.stringify(body);
    const request = open(`${url.href.replace(/\/+$/, '')}${path}`, {
      method,
      // A new connection: a kept-alive one would hide what is wrong with new ones.
      agent: false,
      ca: trustedWith(ca),
      signal,
      headers: {
        accept: 'application/json',
        'x-correlation-id': correlation_id,
        ...(bearer && { authorization: `Bearer ${bearer}` }),
        ...(text && { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      },
    });
    request.on('error', reject);
    request.on('response', async (response) => {
      let heard = '';
      try {
        for await (const chunk of response.setEncoding('utf8')) {
          heard += chunk;
          if (heard.length > maxReplyBytes) throw new Error('the reply is too large');
        }
        resolve({ status: response.statusCode ?? 0, text: heard });
      } catch (error) {
        reject(error);
      }
    });
    request.end(text);
  });

function parsed(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

const isText = (value: unknown): value is string => typeof value === 'string';

export const stranger = (status: number, text: string): Outcome => {
  const shown = text.slice(0, shownBytes).replaceAll(/\s+/g, ' ').trim();
  return failed('ingress_stranger', `it answered ${status} with something that is not ours${shown && `: ${shown}`}`);
};

/**
 * Times out after `patient.patience_seconds`, plus `wait_seconds` if the server was asked to wait.
 */
export async function ask(patient: Patient, question: Question, wait_seconds = 0): Promise<Heard> {
  let reply: Reply;
  try {
    const patience_seconds = patient.patience_seconds + wait_seconds;
    reply = await within({ ...patient, patience_seconds }, exchange(patient, question));
  } catch (error) {
    const name = errorName(error) ?? '';
    const says = error instanceof Error ? error.message : String(error);
    return { outcome: failed(name === 'ETIMEDOUT' ? 'no_answer' : faultOfError(name), says) };
  }
  const body = parsed(reply.text);
  if (body && reply.status >= 200 && reply.status < 300) return { body };
  const { code, owner_layer, detail_layer, detail, title } = body ?? {};
  if (!isText(code) || !isText(owner_layer)) return { outcome: stranger(reply.status, reply.text) };
  const says = isText(detail) ? detail : isText(title) ? title : code;
  const layers = { owner_layer, ...(isText(detail_layer) && { detail_layer }) };
  return { outcome: { state: 'failed', code, says, ...layers } };
}
