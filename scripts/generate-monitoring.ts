/**
 * Writes the Prometheus rules, their tests, the Grafana dashboards and the tables of
 * docs/reference/metrics.md and docs/how-to/monitoring.md: `bin/run
 * scripts/generate-monitoring.ts`.
 */
import { readFileSync } from 'node:fs';
import { type Alert, alerts } from '../packaging/monitoring/alerts.ts';
import { dashboards } from '../packaging/monitoring/dashboards.ts';
import { renderDashboard } from '../packaging/monitoring/grafana.ts';
import { fleetMetrics, type Metric, relayMetrics, replicaMetrics } from '../packaging/monitoring/metrics.ts';
import { renderRules, renderRuleTests, rulesFile, runbookAnchor, runbookPage } from '../packaging/monitoring/rules.ts';
import { fromRoot } from './generate-contract-docs.ts';
import { fillSections } from './generator/marked-sections.ts';
import { runGenerator } from './generator/run-generator.ts';

const table = (head: string[], rows: string[][]) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
const code = (text: string) => `\`${text}\``;

/** Longer lists of values are in the glossary. */
const maxListedValues = 4;

const labelCell = ([name, values]: [string, readonly string[] | null]) =>
  values !== null && values.length > 1 && values.length <= maxListedValues
    ? `${code(name)}: ${values.map(code).join(', ')}`
    : code(name);

const metricTable = (metrics: Record<string, Metric>) => () =>
  table(
    ['metric', 'labels', 'says'],
    Object.entries(metrics).map(([name, { labels, says }]) => [
      code(name),
      Object.entries(labels).map(labelCell).join('; '),
      says,
    ]),
  );

const alertTable = () =>
  table(
    ['alert', 'severity', 'owner', 'fires when this holds', 'for'],
    Object.entries<Alert>(alerts).map(([name, { severity, owner, expression, ...alert }]) => [
      `[${name}](#${runbookAnchor(name)})`,
      severity,
      owner,
      // A bar would end the cell.
      code(expression.replaceAll('|', '\\|')),
      alert.for,
    ]),
  );

/** Maps each page to its generated sections. */
const pages: Record<string, Record<string, () => string>> = {
  'docs/reference/metrics.md': {
    'fleet-metrics': metricTable(fleetMetrics),
    'replica-metrics': metricTable(replicaMetrics),
    'relay-metrics': metricTable(relayMetrics),
  },
  [runbookPage]: { alerts: alertTable },
};

const folder = 'packaging/monitoring';

/** Maps each path from the repository root to its content. */
export const monitoringFiles: Record<string, () => string> = {
  [`${folder}/${rulesFile}`]: renderRules,
  [`${folder}/prometheus-rules.test.yaml`]: renderRuleTests,
  ...Object.fromEntries(
    Object.entries(dashboards).map(([name, dashboard]) => [
      `${folder}/dashboards/${name}.json`,
      () => renderDashboard(name, dashboard),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(pages).map(([path, sections]) => [
      path,
      () => fillSections(path, readFileSync(fromRoot(path), 'utf8'), sections),
    ]),
  ),
};

if (import.meta.main) await runGenerator(monitoringFiles);
