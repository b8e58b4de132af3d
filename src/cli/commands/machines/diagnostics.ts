/** `slipway diagnostics`: shows what was last collected from a machine, and its last probe. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { collect } from '../../connection/pages.ts';
import { resolveNode } from '../../connection/resolve-id.ts';
import type { Session } from '../../connection/session.ts';
import { diagnosticsLines, type NodeDiagnostics } from '../../render/machines/diagnostics.ts';
import { renderContext } from '../../render/text/hints.ts';
import { count } from '../../terminal/option-values.ts';
import { printJson, printLines } from '../../terminal/terminal.ts';

const maxFacts = 10;

/**
 * Returns the facts of the newest collection. One operation records the answers of the agent and
 * the provider, or that an answer is missing.
 */
async function fetchNewestCollection(session: Session, node_id: string): Promise<Evidence[]> {
  const read = async (kind: string) => {
    const query = { node_id, kind, order: 'newest' } as const;
    return (await collect((paging) => session.call('timeline-get', { query: { ...query, ...paging } }), maxFacts))
      .items;
  };
  const facts = [...(await read('evidence.frozen')), ...(await read('evidence.missing'))];
  const newest = facts.reduce<Evidence | undefined>(
    (best, fact) => (best && best.at >= fact.at ? best : fact),
    undefined,
  );
  return facts
    .filter(({ workflow_id }) => workflow_id === newest?.workflow_id)
    .sort((one, other) => one.at.localeCompare(other.at));
}

export const makeDiagnostics: MakeCommand = (cli) =>
  new SlipwayCommand('diagnostics')
    .description(
      'Show what was last collected from a machine: its host, processes, last log lines, and what its provider reports.',
    )
    .argument('<id>', 'a node, or an allocation or operation on it')
    .option('--lines <n>', 'how many of the last lines to show', count, 20)
    .examples('slipway diagnostics node_…', 'slipway diagnostics alloc_… --lines 200')
    .action(
      cli.run<{ lines: number }>(async (session, { lines }, [id = '']) => {
        const { node_id } = await resolveNode(session, id, 'nothing was collected');
        await session.call('node-get', { params: { id: node_id } });
        const collected = await fetchNewestCollection(session, node_id);
        const query = { node_id, kind: 'node-probe', limit: 1 };
        const probe = (await session.call('operation-list', { query })).items[0] ?? null;
        const diagnostics: NodeDiagnostics = { node_id, collected, probe };
        const { out } = session.terminal;
        const context = renderContext(session);
        if (session.json) printJson(out, diagnostics);
        else printLines(out, diagnosticsLines(diagnostics, lines, context));
        return undefined;
      }),
    );
