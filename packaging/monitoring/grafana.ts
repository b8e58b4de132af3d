/** Renders a dashboard as the JSON that Grafana 10 and later import and provision. */
import type { Dashboard, Panel } from './dashboards.ts';

const columns = 24;
const sizes = { stat: { w: 4, h: 4 }, graph: { w: 12, h: 8 } };
const datasource = { type: 'prometheus', uid: '$datasource' };

function thresholds({ red_from, red_below }: Panel) {
  const good = { color: 'green', value: null as number | null };
  const bad = { color: 'red', value: null as number | null };
  if (red_from !== undefined) return [good, { ...bad, value: red_from }];
  return red_below === undefined ? [good] : [bad, { ...good, value: red_below }];
}

const renderPanel = (panel: Panel, id: number, gridPos: object) => ({
  id,
  type: panel.kind === 'stat' ? 'stat' : 'timeseries',
  title: panel.title,
  ...(panel.says && { description: panel.says }),
  datasource,
  gridPos,
  fieldConfig: {
    defaults: {
      unit: panel.unit,
      min: 0,
      ...(panel.kind === 'stat'
        ? { color: { mode: 'thresholds' }, thresholds: { mode: 'absolute', steps: thresholds(panel) } }
        : { custom: { fillOpacity: 10, showPoints: 'never' } }),
    },
    overrides: [],
  },
  options:
    panel.kind === 'stat'
      ? { colorMode: 'value', graphMode: 'area', reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false } }
      : { legend: { displayMode: 'list', placement: 'bottom' }, tooltip: { mode: 'multi', sort: 'desc' } },
  targets: Object.entries(panel.series).map(([legendFormat, expr], at) => ({
    refId: String.fromCharCode('A'.charCodeAt(0) + at),
    datasource,
    expr,
    legendFormat,
    ...(panel.kind === 'stat' && { instant: true }),
  })),
});

/** Places panels from left to right and starts a new line when one does not fit. */
function renderRows(rows: Dashboard['rows']) {
  const panels: object[] = [];
  let y = 0;
  for (const row of rows) {
    panels.push({
      id: panels.length + 1,
      type: 'row',
      title: row.title,
      collapsed: false,
      gridPos: { x: 0, y, w: columns, h: 1 },
      panels: [],
    });
    y += 1;
    let x = 0;
    let lineHeight = 0;
    for (const panel of row.panels) {
      const { w, h } = sizes[panel.kind];
      if (x + w > columns || (x > 0 && h !== lineHeight)) {
        x = 0;
        y += lineHeight;
      }
      lineHeight = h;
      panels.push(renderPanel(panel, panels.length + 1, { x, y, w, h }));
      x += w;
    }
    y += lineHeight;
  }
  return panels;
}

const variables = [
  { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {}, hide: 0 },
  {
    name: 'instance',
    label: 'Replica',
    type: 'query',
    datasource,
    query: { query: 'label_values(slipway_beats_total, instance)', refId: 'instance' },
    includeAll: true,
    multi: true,
    allValue: '.*',
    current: { text: ['All'], value: ['$__all'] },
    refresh: 2,
    sort: 1,
  },
];

export const renderDashboard = (name: string, dashboard: Dashboard): string =>
  `${JSON.stringify(
    {
      uid: `slipway-${name}`,
      title: dashboard.title,
      description: dashboard.says,
      tags: ['slipway'],
      schemaVersion: 39,
      editable: true,
      graphTooltip: 1,
      time: { from: 'now-6h', to: 'now' },
      refresh: '30s',
      links: [
        {
          type: 'dashboards',
          title: 'Slipway',
          tags: ['slipway'],
          asDropdown: true,
          includeVars: true,
          keepTime: true,
        },
      ],
      templating: { list: variables },
      panels: renderRows(dashboard.rows),
    },
    null,
    2,
  )}\n`;
