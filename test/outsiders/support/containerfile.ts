/** Reads the settings of the release's image from its Containerfile and its health check. */
import { readFileSync } from 'node:fs';
import { inPackaging } from '../../../packaging/build/paths.ts';

/** The text with continued lines joined, so that each instruction is one line. */
const text = readFileSync(inPackaging('image/Containerfile'), 'utf8').replaceAll(/\\\n\s*/g, ' ');

/** The arguments of the last instruction of a kind. */
function instruction(name: string): string {
  const found = text.split('\n').findLast((line) => line.startsWith(`${name} `));
  if (found === undefined) throw new Error(`the Containerfile has no ${name}`);
  return found.slice(name.length + 1).trim();
}

const pairs = instruction('ENV')
  .split(/\s+/)
  .map((pair) => pair.split('=') as [string, string]);

export const image = {
  user: instruction('USER'),
  env: Object.fromEntries(pairs),
  port: Number(instruction('EXPOSE')),
  volume: instruction('VOLUME'),
  stopSignal: instruction('STOPSIGNAL'),
  entrypoint: JSON.parse(instruction('ENTRYPOINT')) as string[],
  command: JSON.parse(instruction('CMD')) as string[],
  /** The path that the health check requests. */
  healthPath: /path: '([^']+)'/.exec(readFileSync(inPackaging('image/slipway-health.mjs'), 'utf8'))?.[1],
};
