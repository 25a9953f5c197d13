// Brokers and their settings.
import { html } from "../lib/preact.js";
import { get, path } from "../lib/api.js";
import { link, useLoad } from "../lib/hooks.js";
import { Badge, Loaded, Page, Tabs } from "../lib/ui.js";
import { Settings } from "./settings.js";

export function Brokers({ place }) {
  const state = useLoad((signal) => get("/overview", signal), [], 15000);
  return html`<${Page} title="Brokers" lead="Settings of each broker. What can be changed while it runs has a button.">
    <${Loaded} state=${state}>${(data) => {
      const chosen = data.brokers.find((each) => String(each.id) === place.parts[1]) || data.brokers[0];
      const tabs = data.brokers.map((each) => [each.id, `Broker ${each.id}`, link("brokers", each.id)]);
      return html`<${Tabs} label="Brokers" tabs=${tabs} chosen=${chosen.id} />
        <p class="lead"><code>${chosen.host}:${chosen.port}</code> ${chosen.is_controller && html`<${Badge} kind="good">controller<//>`}</p>
        <${Settings} key=${chosen.id} what="broker" where=${`/brokers${path(chosen.id)}/settings`} />`;
    }}<//>
  <//>`;
}
