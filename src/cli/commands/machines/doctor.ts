/** `slipway doctor`: finds the first layer that fails between here and a machine, with a remedy. */
import { InvalidArgumentError } from 'commander';
import type { Allocation } from '../../../contract/allocation.ts';
import { RequestRefused, ServerUnreachable } from '../../../contract/client.ts';
import type { DoctorTarget, LayerReport } from '../../../doctor/examination.ts';
import { examine } from '../../../doctor/examine.ts';
import { closingLines, examinationJson, exitOf, layerLine } from '../../../doctor/render.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { isAllocation, resolveNode } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { momentInFull } from '../../render/text/duration.ts';
import { printable, wrap } from '../../render/text/text.ts';
import { CliFailure, Interrupted } from '../../terminal/failure.ts';
import { duration } from '../../terminal/option-values.ts';
import { fitOf, printJson, printLines } from '../../terminal/terminal.ts';
import { targetKindOf } from '../../wait/subject.ts';

interface Options {
  patience: number;
}

const maxPatienceSeconds = 60;

function patience(text: string): number {
  const seconds = duration(text);
  if (seconds <= 0 || seconds > maxPatienceSeconds)
    throw new InvalidArgumentError(`Expected more than 0 s and at most ${maxPatienceSeconds} s.`);
  return seconds;
}

/** An address has a scheme, a port or a domain; an id does not. */
const isAddress = (text: string) => targetKindOf(text) === null && /^[a-z]+:\/\/|[.:]|^localhost$/i.test(text);

const releasedFailure = (session: Session, { allocation_id, released_at, reason }: Allocation) =>
  new CliFailure('failed', `${allocation_id} is released, so it has no machine to examine`, {
    why: `It was released${released_at ? ` at ${momentInFull(released_at)}` : ''}${reason ? `: ${printable(reason)}` : '.'}`,
    remedy: `See what happened: ${session.commandLine('explain', allocation_id)}`,
  });

/**
 * Returns null if the server is unreachable or refuses the token. The examination then fails at an
 * earlier layer.
 */
async function resolveNodeToExamine(session: Session, id: string): Promise<string | null> {
  if (targetKindOf(id) === 'node') return id;
  try {
    const { node_id, reference } = await resolveNode(session, id, 'there is no machine to examine');
    if (isAllocation(reference) && reference.status === 'released') throw releasedFailure(session, reference);
    return node_id;
  } catch (error) {
    const isUnavailable =
      error instanceof ServerUnreachable || (error instanceof RequestRefused && error.problem.status === 401);
    if (isUnavailable) return null;
    throw error;
  }
}

async function examineAndPrint(session: Session, target: DoctorTarget): Promise<LayerReport[]> {
  const { out } = session.terminal;
  const fit = fitOf(out);
  const reports: LayerReport[] = [];
  for await (const report of examine(target)) {
    reports.push(report);
    if (!session.json) printLines(out, [layerLine({ ...report, says: printable(report.says) }, fit.paint)]);
  }
  return reports;
}

export const makeDoctor: MakeCommand = (cli) =>
  new SlipwayCommand('doctor')
    .description(
      'Find the first layer that fails between here and a machine: DNS, TCP, TLS and its certificate, HTTP, ' +
        'the token, then the node’s fence and heartbeat, and a ping that its agent must claim and answer.',
    )
    .argument('[id|url]', 'any id or name of a machine, or the address of a server; default --server')
    .option('--patience <time>', 'how long each layer may take', patience, 10)
    .examples(
      'slipway doctor',
      'slipway doctor https://slipway.example.com --ca ca.pem',
      'slipway doctor node_…',
      'slipway doctor node_… --json',
    )
    .action(
      cli.run<Options>(
        async (session, options, [idOrUrl = '']) => {
          const id = idOrUrl === '' || isAddress(idOrUrl) ? null : await resolveNodeToExamine(session, idOrUrl);
          const { token = null, ca } = session.connection;
          const reports = await examineAndPrint(session, {
            url: new URL(session.server),
            ca,
            known_keys: null,
            caller: { kind: 'person', token, node_id: id },
            correlation_id: session.correlation_id,
            clock: session.clock,
            signal: session.signal,
            timeout_seconds: options.patience,
          });
          if (session.signal.aborted) throw new Interrupted();
          const { out } = session.terminal;
          const fit = fitOf(out);
          if (session.json) printJson(out, examinationJson(session.server, reports, session.correlation_id));
          else {
            const lines = closingLines(reports, fit.paint);
            printLines(out, ['', ...lines.flatMap((line) => wrap(line, fit.width))]);
          }
          return exitOf(reports);
        },
        ([idOrUrl = '']) => (isAddress(idOrUrl) ? idOrUrl : undefined),
      ),
    );
