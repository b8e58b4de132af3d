/** One POST of JSON over a connection that stays open. */
import { type Agent, request } from 'node:http';

const answerWithinMs = 15_000;

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
    const asked = request(url, { method: 'POST', agent, headers, timeout: answerWithinMs }, (response) => {
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
    asked.on('timeout', () => asked.destroy(new Error('no answer in time')));
    asked.on('error', reject);
    asked.end(body);
  });
