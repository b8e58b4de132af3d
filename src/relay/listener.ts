/** What agents of the rack reach: their beats are gathered, everything else of their protocol is passed on. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Compile } from 'typebox/compile';
import { Heartbeat } from '../contract/agent/agent.ts';
import { ApiProblem } from '../contract/errors/errors.ts';
import { agentRoutes } from '../contract/routes/agent.ts';
import { serverRoutes } from '../contract/routes/server.ts';
import { isAgentPath, type Target, targetOf } from './agent-paths.ts';
import { sendOutcome, sendProblem } from './answers.ts';
import type { Gatherer } from './gatherer.ts';
import { passOn } from './pass-on.ts';
import type { Upstream } from './upstream.ts';

export interface ListenerParts {
  gatherer: Gatherer;
  upstream: Upstream;
  metrics(): string;
}

const heartbeat = Compile(Heartbeat);
const mostBeatBytes = 16 * 1024;
const bearer = /^Bearer +([!-~]{1,512})$/i;

const healthPath = serverRoutes['health-get'].path;
const beatPath = agentRoutes['agent-heartbeat'].path;
const streamPath = agentRoutes['agent-stream'].path;
const metricsPath = serverRoutes['metrics-get'].path;

/** Null where it is not a plain, small body: then it is passed on as it comes. */
async function smallBody(request: IncomingMessage): Promise<Buffer | null> {
  const { headers } = request;
  if (headers['transfer-encoding'] !== undefined || headers['content-encoding'] !== undefined) return null;
  if (Number(headers['content-length'] ?? 0) > mostBeatBytes) return null;
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Null for what is no beat of ours: the control plane itself says what is wrong with it. */
function beatIn(body: Buffer): Heartbeat | null {
  if (body.length === 0) return {};
  try {
    const beat: unknown = JSON.parse(body.toString('utf8'));
    return heartbeat.Check(beat) ? beat : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

async function takeBeat(
  request: IncomingMessage,
  response: ServerResponse,
  target: Target,
  { gatherer, upstream }: ListenerParts,
): Promise<void> {
  const credential = bearer.exec(request.headers.authorization ?? '')?.[1];
  const body = await smallBody(request);
  const isJson = body?.length === 0 || /^application\/json\b/i.test(request.headers['content-type'] ?? '');
  const beat = body && isJson ? beatIn(body) : null;
  if (credential === undefined || beat === null) return passOn(upstream, target, request, response, body ?? undefined);
  sendOutcome(request, response, await gatherer.take(credential, beat));
}

export const relayListener =
  (parts: ListenerParts) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    const target = targetOf(request.url ?? '/');
    const refuse = (problem: ApiProblem) => sendProblem(request, response, problem);
    const notOurs = () => refuse(new ApiProblem('not_found', 'A relay serves agents alone.'));
    if (!target) {
      notOurs();
      return;
    }
    const { path } = target;
    // No page of a browser has anything to say to a relay.
    if (request.headers.origin !== undefined) refuse(new ApiProblem('origin_refused'));
    else if (path === streamPath)
      refuse(new ApiProblem('not_found', 'A relay gathers beats; a stream goes to the control plane itself.'));
    else if (path === beatPath && request.method === 'POST')
      // Whoever leaves while its beat is read is not there to be answered.
      takeBeat(request, response, target, parts).catch(() => response.destroy());
    else if (isAgentPath(path) || path === healthPath) passOn(parts.upstream, target, request, response);
    else if (path === metricsPath) {
      response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' });
      response.end(parts.metrics());
    } else notOurs();
  };
