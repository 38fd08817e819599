"use strict";
const story = JSON.parse(document.getElementById("story").textContent);
const list = document.createElement("ol");
for (const event of story.events.rows || story.events) {
  const item = document.createElement("li");
  item.textContent = event.text || JSON.stringify(event);
  list.append(item);
}
document.body.append(list);
