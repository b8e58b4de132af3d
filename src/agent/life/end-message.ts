/**
 * Builds the last message of an agent that ended because of a problem that a person must fix. It
 * names the problem, its cause and a remedy.
 */
import { builtInRedactor } from '../../base/redaction/redact.ts';
import { pathFaults } from '../../contract/errors/path-faults.ts';
import type { AgentEnd } from './exit.ts';

export interface MessageContext {
  server_url: string;
  dir: string;
}

interface Message {
  problem(context: MessageContext): string;
  remedy(context: MessageContext): string;
}

const newJoinToken = 'slipway join-token create POOL';

/** Failures before the agent has started. */
const startMessages: Record<string, Message> = {
  usage: {
    problem: () => 'invalid arguments',
    remedy: () => 'See slipway agent --help.',
  },
  occupied: {
    problem: ({ dir }) => `another agent uses ${dir}`,
    remedy: () => 'Stop the other agent, or choose another directory with --dir.',
  },
};

/** Error codes of the operating system if a directory cannot be created, locked or written. */
const directoryErrors = ['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOENT', 'ENOSPC'];
const directoryMessage: Message = {
  problem: ({ dir }) => `the agent cannot write to ${dir}`,
  remedy: () => "Allow the agent's user to write there, or choose another directory with --dir.",
};

const unreachedMessage = (remedy: string): Message => ({
  problem: ({ server_url }) => `${server_url} was not reached in time`,
  remedy: ({ server_url }) => `${remedy} slipway agent doctor --server ${server_url} shows which layer fails.`,
});

/** Messages for error codes of the control plane that are more specific than an exit code. */
const refusalMessages: Record<string, Message> = {
  join_token_invalid: {
    problem: ({ server_url }) => `${server_url} refused the join token`,
    remedy: () => `Create a new token (${newJoinToken}) and pass it with --join-token-file or SLIPWAY_JOIN_TOKEN.`,
  },
  join_token_expired: {
    problem: () => 'the join token has expired',
    remedy: () => `Create a new token (${newJoinToken}) and pass it with --join-token-file or SLIPWAY_JOIN_TOKEN.`,
  },
  join_token_spent: {
    problem: () => 'the join token has no uses left',
    remedy: () => `Create a new token (${newJoinToken}) and pass it with --join-token-file or SLIPWAY_JOIN_TOKEN.`,
  },
  identity_unproven: {
    problem: ({ dir }) => `the server knows a machine with this name, but ${dir} does not hold its credential or key`,
    remedy: () =>
      'Start the agent with its former directory, enrol the node again (slipway act NODE re-enroll), or choose another --name.',
  },
  pool_full: {
    problem: () => 'the pool is full',
    remedy: () => 'Raise `max_nodes` of the pool, or retire one of its nodes: slipway act NODE retire',
  },
  enrollment_invalid: {
    problem: ({ server_url }) => `${server_url} refused the enrolment token`,
    remedy: () =>
      'Create the expected node again, or enrol it again (slipway act NODE re-enroll). Then start the agent with the new token.',
  },
  pool_not_found: {
    problem: () => 'the pool of the join token does not exist',
    remedy: () => `Declare the pool again (slipway apply -f FILE), or use a token of another pool: ${newJoinToken}`,
  },
  name_taken: {
    problem: () => 'another machine has this name',
    remedy: () => 'Choose another --name, or retire the node that has this name: slipway act NODE retire',
  },
  token_missing: {
    problem: ({ dir }) => `the agent has no token to register with, and ${dir} holds no credential`,
    remedy: () => `Pass a token with --join-token-file or SLIPWAY_JOIN_TOKEN. Create one with: ${newJoinToken}`,
  },
};

const endMessages: Record<string, Message> = {
  setup_failed: {
    problem: () => 'the set-up failed',
    remedy: ({ dir }) =>
      `Fix \`setup\` in the pool or in the configuration file, then start the agent again. Its last lines are in ${dir}/agent.exit.json.`,
  },
  prerequisite_missing: {
    problem: () => 'a prerequisite of the pool is missing on this machine',
    remedy: () => 'Install it, or remove it from `requires` of the pool. Then start the agent again.',
  },
  registration_deadline: {
    problem: () => 'the agent was not registered in time',
    remedy: () => 'Extend the deadline (slipway act NODE extend-deadline) or retry the allocation.',
  },
  registration_refused: {
    problem: ({ server_url }) => `${server_url} refused the registration`,
    remedy: ({ server_url }) =>
      `Fix the problem named above. slipway agent doctor --server ${server_url} checks the path to the server.`,
  },
  agent_crashed: {
    problem: () => 'internal error',
    remedy: ({ dir }) => `Start the agent again, and report the content of ${dir}/agent.exit.json.`,
  },
};

const messagesByCode = new Map<string, Message>([
  ...Object.entries(pathFaults).map(([code, { remedy }]) => [code, unreachedMessage(remedy)] as const),
  ...directoryErrors.map((code) => [code, directoryMessage] as const),
  ...Object.entries({ ...startMessages, ...refusalMessages, ...endMessages }),
]);

const maxLength = 1_000;

/**
 * Cleans text that comes from outside: keeps one line, redacts secrets and removes control
 * characters. The cut comes last, because the redactor does not recognize a part of a secret.
 */
const sanitize = (text: string) =>
  builtInRedactor
    .text(text.split('\n')[0] ?? '')
    .replaceAll(/[\p{Cc}\p{Cf}]+/gu, ' ')
    .slice(0, maxLength);

/** Returns null for a code that needs no action. */
export function messageFor(code: string, cause: string, { server_url, dir }: MessageContext): string | null {
  const message = messagesByCode.get(code);
  if (!message) return null;
  const context = { server_url: sanitize(server_url), dir: sanitize(dir) };
  return `slipway agent: ${message.problem(context)}: ${sanitize(cause)}\n  What to do: ${message.remedy(context)}\n`;
}

export function endMessage({ code, reason, failure }: AgentEnd, context: MessageContext): string | null {
  const failureMessage = failure && messageFor(failure.code, failure.detail || reason, context);
  return failureMessage ?? messageFor(code, reason, context);
}
