/** Sends a POST with JSON over a persistent connection. */
import { type Agent, request } from 'node:http';

const answerTimeoutMs = 15_000;

export interface Reply {
  status: number;
  text: string;
  retryAfterMs: number;
}

export const post = (url: URL, agent: Agent, body: string, bearer?: string): Promise<Reply> =>
  new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(bearer && { authorization: `Bearer ${bearer}` }),
    };
    const outgoing = request(url, { method: 'POST', agent, headers, timeout: answerTimeoutMs }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => {
        text += part;
      });
      response.on('end', () => {
        const retryAfterMs = Number(response.headers['retry-after'] ?? 0) * 1000;
        resolve({ status: response.statusCode ?? 0, text, retryAfterMs });
      });
      response.on('error', reject);
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in time')));
    outgoing.on('error', reject);
    outgoing.end(body);
  });
