/** promtool, the checker of Prometheus, accepts our /metrics, alerts and dashboards. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import { type AlertCase, alertCases } from '../../packaging/monitoring/alert-cases.ts';
import { alerts } from '../../packaging/monitoring/alerts.ts';
import { dashboards } from '../../packaging/monitoring/dashboards.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { share, withOutsider } from './support/outsider.ts';

const folder = fileURLToPath(new URL('../../packaging/monitoring/', import.meta.url));
const rulesFile = 'prometheus-rules.yaml';
const ruleTestsFile = 'prometheus-rules.test.yaml';

/** Every alert has a test that fires it, and one for each set of series that does not. */
const ruleTests = Object.values<AlertCase>(alertCases).flatMap(({ fires, quiet }) => [fires, ...[quiet].flat()]);

interface RuleTests {
  tests: { alert_rule_test: { alertname: string }[] }[];
}

withOutsider('promtool', ({ place }) => {
  const promtool = (args: string[], input?: string) =>
    spawnSync(join(place, 'usr/bin/promtool'), args, { input, encoding: 'utf8' });
  const checkMetrics = (input: string) => promtool(['check', 'metrics'], input);

  describe('the metrics', () => {
    let server: SpawnedServer;
    let metrics: string;
    beforeAll(async () => {
      server = await spawnServer();
      const reply = await fetch(`${server.url}/metrics`, { headers: { authorization: `Bearer ${server.token}` } });
      metrics = await reply.text();
    });
    afterAll(() => server?.stop());

    it('accepts the metrics of a server without a warning', () => {
      expect(metrics).toContain('slipway_');
      const { status, stderr } = checkMetrics(metrics);
      expect(stderr).toBe('');
      expect(status).toBe(0);
    });

    it('rejects metrics with a syntax error', () => {
      expect(checkMetrics('slipway_count{ 1\n').status).not.toBe(0);
    });

    it('finds each sweep that an alert or a panel names among the sweeps of a server', () => {
      const sweeps = [...metrics.matchAll(/^slipway_sweep_runs_total\{sweep="(.+?)"\}/gm)].map(([, name]) => name);
      const panels = Object.values(dashboards).flatMap(({ rows }) => rows.flatMap((row) => row.panels));
      const expressions = [
        ...Object.values(alerts).map(({ expression }) => expression),
        ...panels.flatMap(({ series }) => Object.values(series)),
      ];
      const namedSweeps = expressions
        .flatMap((expression) => [...expression.matchAll(/sweep(?:=|!=|=~|!~)"(.+?)"/g)])
        .flatMap(([, names = '']) => names.split('|'));
      expect(namedSweeps.length).toBeGreaterThan(0);
      expect(namedSweeps.filter((name) => !sweeps.includes(name))).toEqual([]);
    });
  });

  describe('the alerts', () => {
    let copy: string;
    const rules = readFileSync(join(folder, rulesFile), 'utf8');
    const testRules = () => promtool(['test', 'rules', join(copy, ruleTestsFile)]);
    beforeEach(() => {
      copy = mkdtempSync(join(tmpdir(), 'slipway-rules-'));
      for (const file of [rulesFile, ruleTestsFile]) cpSync(join(folder, file), join(copy, file));
    });
    afterEach(() => rmSync(copy, { recursive: true }));

    it('accepts the rules without a warning', () => {
      const { status, stdout, stderr } = promtool(['check', 'rules', '--lint-fatal', join(folder, rulesFile)]);
      expect(stderr).toBe('');
      expect(stdout).toContain(`SUCCESS: ${Object.keys(alerts).length} rules found`);
      expect(status).toBe(0);
    });

    // promtool takes 15 s of CPU time for hours of series.
    it('fires each alert for its first series, and not for the others', { timeout: 400_000 }, () => {
      const { status, stderr } = testRules();
      expect(stderr).toBe('');
      expect(status).toBe(0);
      const tests = readFileSync(join(copy, ruleTestsFile), 'utf8').match(/eval_time:/g);
      expect(tests).toHaveLength(ruleTests.length);
    });

    it('notices an alert that always fires, and one that never does', { timeout: 400_000 }, () => {
      const names = share(Object.keys(alerts).slice(0, 3), Object.keys(alerts));
      const { tests, ...settings } = parse(readFileSync(join(folder, ruleTestsFile), 'utf8')) as RuleTests;
      const chosenTests = tests.filter((each) =>
        each.alert_rule_test.some(({ alertname }) => names.includes(alertname)),
      );
      writeFileSync(join(copy, ruleTestsFile), stringify({ ...settings, tests: chosenTests }));
      for (const expression of ['vector(1)', 'vector(1) > 1']) {
        writeFileSync(join(copy, rulesFile), rules.replaceAll(/expr: .*/g, `expr: ${expression}`));
        const { status, stdout, stderr } = testRules();
        for (const name of names) expect(stdout + stderr).toContain(`alertname: ${name}, time:`);
        expect(status).not.toBe(0);
      }
    });
  });

  describe('the dashboards', () => {
    /** Recording rules are the only way to make promtool parse a bare expression. */
    const checkExpressions = (expressions: string[]) => {
      const rules = expressions.map((expr, at) => ({ record: `panel_${at}`, expr }));
      const path = join(mkdtempSync(join(tmpdir(), 'slipway-panels-')), 'panels.yaml');
      writeFileSync(path, stringify({ groups: [{ name: 'panels', rules }] }));
      const { status, stderr } = promtool(['check', 'rules', path]);
      rmSync(join(path, '..'), { recursive: true });
      return { status, stderr };
    };
    /** Grafana fills in its variables before it sends a query. */
    const fillVariables = (expression: string) =>
      expression.replaceAll('$__rate_interval', '5m').replaceAll('$instance', 'slipway-1:7070');

    it.each(Object.keys(dashboards))('have valid expressions in %s.json', (name) => {
      const dashboard = JSON.parse(readFileSync(join(folder, 'dashboards', `${name}.json`), 'utf8')) as {
        panels: { targets?: { expr: string }[] }[];
      };
      const expressions = dashboard.panels.flatMap(({ targets = [] }) =>
        targets.map(({ expr }) => fillVariables(expr)),
      );
      expect(expressions.length).toBeGreaterThan(0);
      expect(checkExpressions(expressions)).toEqual({ status: 0, stderr: '' });
    });

    it('would be rejected with a syntax error', () => {
      expect(checkExpressions(['rate(slipway_beats_total[5m]']).status).not.toBe(0);
    });
  });
});
