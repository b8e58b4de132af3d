/** `slipway act`: runs an action on a node or an allocation, with a recorded reason. */
import { randomUUID } from 'node:crypto';
import { Argument, Option } from 'commander';
import { type NodeActionName, nodeActionNames } from '../../../lifecycle/actions/actions.ts';
import { type AllocationActionName, allocationActionNames } from '../../../lifecycle/actions/allocation-actions.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { resolveNode, resolveThing } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { type ActionName, actedLines, enrolLines } from '../../render/machines/actions.ts';
import { renderContext } from '../../render/text/hints.ts';
import { CliFailure } from '../../terminal/failure.ts';
import { dryRunOption, duration } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

interface Options {
  reason: string;
  seconds?: number;
  then?: 'hold' | 'retire';
  fingerprint?: string;
  dryRun?: boolean;
}

const actionNames = [...new Set<ActionName>([...nodeActionNames, ...allocationActionNames])];
const isForAllocations = (action: string): action is AllocationActionName =>
  allocationActionNames.some((name) => name === action);
const isForNodes = (action: string): action is NodeActionName => nodeActionNames.some((name) => name === action);

interface ActionBody {
  reason: string;
  dry_run?: boolean;
  seconds?: number;
  fingerprint?: string;
}

/** Runs an allocation action on the allocation, and any other action on its machine. */
async function act(session: Session, word: string, action: string, body: ActionBody, then: Options['then']) {
  const idempotency_key = randomUUID();
  const { kind, id } = await resolveThing(session, word);
  if (kind === 'allocation' && isForAllocations(action))
    return session.call('allocation-act', { params: { id, action }, body, idempotency_key });
  if (!isForNodes(action))
    throw new CliFailure('usage', `${action} is an action on allocations, but ${id} is not an allocation`, {
      remedy: `See what you can do about ${id}: ${session.commandLine('actions', id)}`,
    });
  const { node_id } = await resolveNode(session, id, `${action} is not possible`);
  const nodeBody = { ...body, ...(then && { drain_then: then }) };
  return session.call('node-act', { params: { id: node_id, action }, body: nodeBody, idempotency_key });
}

export const makeAct: MakeCommand = (cli) =>
  new SlipwayCommand('act')
    .description(
      'Run an action on a node or an allocation. slipway actions lists the available ones. The server refuses the others.',
    )
    .argument('<id>', 'an allocation, a node, or an operation on one')
    .addArgument(new Argument('<action>', 'what to do').choices(actionNames))
    .requiredOption('-r, --reason <text>', 'why; recorded as evidence under your name')
    .option('--seconds <time>', 'extend-deadline: by how much, like 600 or 10m', duration)
    .addOption(new Option('--then <end>', 'drain: what to do once the machine is empty').choices(['hold', 'retire']))
    .option(
      '--fingerprint <hex>',
      'accept-key: the fingerprint of the key to accept. --dry-run shows it. Compare it with the machine first',
    )
    .addOption(dryRunOption('only show the effect'))
    .examples(
      'slipway act node_… extend-deadline --seconds 10m --reason "the image is large today"',
      'slipway act node_… drain --then retire --reason "the host is replaced"',
      'slipway act node_… apply-held-verdict --dry-run',
      'slipway act node_… reimage --reason "a new kernel"',
      'slipway act alloc_… retry-release --reason "the disk is writable again"',
    )
    .action(
      cli.run<Options>(async (session, { reason, seconds, then, fingerprint, dryRun }, [id = '', action = '']) => {
        const body = {
          reason,
          ...(dryRun && { dry_run: true }),
          ...(seconds !== undefined && { seconds }),
          ...(fingerprint !== undefined && { fingerprint }),
        };
        const result = await act(session, id, action, body, then);
        const { out } = session.terminal;
        const context = renderContext(session);
        if (session.json) printJson(out, result);
        else {
          printLines(out, actedLines(action, result, context));
          const token = 'enrollment_token' in result ? result.enrollment_token : undefined;
          if (token) printLines(out, enrolLines(token, session.server, context));
        }
        return undefined;
      }),
    );
